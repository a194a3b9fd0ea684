// The kaged protocol: one JSON-RPC object per line, answered one after another. Ends with its stdin.
import { hooks, Refused, tools } from "./notes.mjs";

const NAME = "notes-node";
const methods = Object.fromEntries(Object.entries(tools).map(([name, tool]) => [`${NAME}.${name}`, tool]));
const answers = {
  initialize: () => ({
    name: NAME,
    version: "0.1.0",
    api_version: 1,
    methods: Object.keys(methods),
    notifications: [],
    capabilities_used: ["kaged:storage:read"],
  }),
  ping: () => ({ status: "ok" }),
  shutdown: () => ({ status: "ok" }),
  ...methods,
  ...Object.fromEntries(Object.entries(hooks).map(([name, hook]) => [`kaged.hook.${name}`, hook])),
};

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

function take(line) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    return send({ id: 0, error: { code: -32700, message: "Parse error" } });
  }
  if (message === null || typeof message !== "object" || message.jsonrpc !== "2.0")
    return send({ id: 0, error: { code: -32600, message: "Invalid Request" } });
  const { id, method, params } = message;
  if (id === undefined) return; // no notification concerns it
  try {
    if (typeof method !== "string") throw new Refused(-32600, "Invalid Request: missing method");
    if (!Object.hasOwn(answers, method)) throw new Refused(-32601, `Method not found: ${method}`);
    send({ id, result: answers[method](params ?? {}) });
  } catch (problem) {
    if (problem instanceof Refused) return send({ id, error: problem.error });
    process.stderr.write(`${method}: ${problem.message}\n`);
    send({ id, error: { code: -32603, message: `Internal error: ${problem.message}` } });
  }
}

// Not node:readline, which would also end a line at U+2028 and U+2029: JSON strings may hold them.
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const lines = chunk.split("\n");
  lines[0] = rest + lines[0];
  rest = lines.pop();
  lines.filter((line) => line.trim()).forEach(take);
});
