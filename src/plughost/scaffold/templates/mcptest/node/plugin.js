// {{name}}: greets people.
"use strict";

const { INVALID_PARAMS, Refusal, serve } = require("./mcptest.js");

const greeting = (name) => `Hello, ${name}!`;

const methods = {
  /** {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
   *  Return {} rather than nothing: mcptest's own host treats a null result as a missing one. */
  greet(params) {
    if (typeof params?.name !== "string") throw new Refusal(INVALID_PARAMS, "greet needs a name, as text");
    return { greeting: greeting(params.name) };
  },
};

if (require.main === module) serve(methods);
