// The rune reference plugin for Node: one process per call; the tool `echo` returns its input.
// JSON.parse makes a double of every number: 12345678901234567890 and 1e400 do not come back as they were.
"use strict";

const greet = () => ({
  type: "handshake",
  manifest: {
    plugin_id: "example.echo-node",
    plugin_version: "1.0.0",
    protocol_version: "rterm.plugin.v1",
    exposed_tools: ["echo", "fail"],
    capabilities: ["tool.execute"],
  },
});

const execute = ({ request_id, tool_name, input, context }) =>
  tool_name === "echo"
    ? { type: "response", request_id, status: "ok", output: input, metadata: { context } }
    : { type: "response", request_id, status: "error", error: { code: "asked_for", message: "you asked for it" } };

// Not node:readline, which would also end a line at U+2028 and U+2029: JSON strings may hold them.
const answers = [greet, execute];
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const lines = chunk.split("\n");
  lines[0] = rest + lines[0];
  rest = lines.pop();
  for (const line of lines) {
    const answer = answers.shift();
    if (answer) process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
  }
});
