// {{name}}: greets people.
"use strict";

const { Refusal, serve } = require("./rune.js");

const greeting = (name) => `Hello, ${name}!`;

const plugin = {
  id: "{{name}}",
  version: "0.1.0",
  capabilities: ["tool.execute"],
  tools: {
    /** {"name": "Ada"} -> {"greeting": "Hello, Ada!"} */
    greet(input) {
      if (typeof input?.name !== "string") throw new Refusal("invalid_input", "greet needs a name, as text");
      return { greeting: greeting(input.name) };
    },
  },
};

if (require.main === module) serve(plugin);
