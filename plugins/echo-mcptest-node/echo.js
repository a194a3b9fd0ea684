// The mcptest reference plugin for Node: `echo` returns its params, `ping` returns "pong".
// JSON.parse makes a double of every number: 12345678901234567890 and 1e400 do not come back as they were.
"use strict";

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function handle(method, params) {
  if (method === "echo") {
    if (params === undefined) throw new Refused(-32602, "echo needs params");
    return params;
  }
  if (method === "ping") return "pong";
  throw new Refused(-32601, `no method ${method}`);
}

function reply(line) {
  let id = null;
  try {
    const request = JSON.parse(line);
    id = request.id ?? null;
    return { id, result: handle(request.method, request.params) };
  } catch (error) {
    const code = error instanceof SyntaxError ? -32700 : (error.code ?? -32603);
    return { id, error: { code, message: error.message } };
  }
}

// Not node:readline, which would also end a line at U+2028 and U+2029: JSON strings may hold them.
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const lines = chunk.split("\n");
  lines[0] = rest + lines[0];
  rest = lines.pop();
  for (const line of lines) process.stdout.write(JSON.stringify(reply(line)) + "\n");
});
