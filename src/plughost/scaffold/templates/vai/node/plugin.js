// {{name}}: greets people.
"use strict";

const { Failed } = require("./vai.js");

const greeting = (name) => `Hello, ${name}!`;

module.exports = {
  tool: {
    /** {"name": "Ada"} -> {"greeting": "Hello, Ada!"} */
    greet(input, call) {
      if (typeof input?.name !== "string") throw new Failed("greet needs a name, as text");
      call.event({ type: "progress", message: `greeting ${input.name}` });
      return { greeting: greeting(input.name) };
    },
  },
};
