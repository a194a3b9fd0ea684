// {{name}}: greets people.
"use strict";

const { BOLD } = require("./ainb.js");

let lastKey = "none yet";

const greeting = (name) => `Hello, ${name}!`;

module.exports = {
  draw(screen) {
    screen.put(0, 0, greeting("world"), BOLD);
    screen.put(0, 1, `Last key: ${lastKey}`);
  },

  key(key) {
    lastKey = key.code.ch ?? key.code.type;
  },

  commands: {
    /** `{{name}} Ada` prints a greeting. */
    "{{name}}": (argv, print) => {
      print(greeting(argv[0] ?? "world") + "\n");
      return 0;
    },
  },
};
