// {{name}}: greets people.
"use strict";

const { INVALID_PARAMS, Refusal, serve } = require("./kaged.js");

const greeting = (name) => `Hello, ${name}!`;

const plugin = {
  name: "{{name}}",
  version: "0.1.0",
  methods: {
    /** {"name": "Ada"} -> {"greeting": "Hello, Ada!"} */
    "{{name}}.greet": (params) => {
      if (typeof params?.name !== "string") throw new Refusal(INVALID_PARAMS, "greet needs a name, as text");
      return { greeting: greeting(params.name) };
    },
  },
};

if (require.main === module) serve(plugin);
