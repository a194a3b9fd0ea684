// The kaged protocol: one JSON-RPC object per line, answered one after another. Ends with its stdin.
import { hooks, tools, type Answer } from "./notes.ts";
import { isObject, LONGEST, Refused, type Params, type Refusal } from "./params.ts";

const NAME = "notes-ts";

function named(prefix: string, answers: Readonly<Record<string, Answer>>): [string, Answer][] {
  return Object.entries(answers).map(([name, answer]) => [`${prefix}.${name}`, answer]);
}

const methods = new Map(named(NAME, tools));
const answers = new Map<unknown, Answer>([
  ["initialize", initialize],
  ["ping", () => ({ status: "ok" })],
  ["shutdown", () => ({ status: "ok" })],
  ...methods,
  ...named("kaged.hook", hooks),
]);

function initialize(): unknown {
  return {
    name: NAME,
    version: "0.1.0",
    api_version: 1,
    methods: [...methods.keys()],
    notifications: [],
    capabilities_used: ["kaged:storage:read"],
  };
}

function send(message: { id: unknown; result: unknown } | { id: unknown; error: Refusal }): void {
  const line = JSON.stringify({ jsonrpc: "2.0", ...message });
  const actual_bytes = Buffer.byteLength(line);
  if (actual_bytes > LONGEST) {
    const data = { code: "message_too_large", actual_bytes, max_bytes: LONGEST };
    throw new Refused({ code: -32000, message: "message too large", data });
  }
  process.stdout.write(line + "\n");
}

function take(line: string): void {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    return send({ id: 0, error: { code: -32700, message: "Parse error" } });
  }
  if (!isObject(message) || message["jsonrpc"] !== "2.0")
    return send({ id: 0, error: { code: -32600, message: "Invalid Request" } });
  const { id, method, params } = message;
  if (id === undefined) return; // no notification concerns it
  try {
    send({ id, result: answered(method, isObject(params) ? params : {}) });
  } catch (problem) {
    if (problem instanceof Refused) return send({ id, error: problem.error });
    const said = problem instanceof Error ? problem.message : String(problem);
    process.stderr.write(`${method}: ${said}\n`);
    send({ id, error: { code: -32603, message: `Internal error: ${said}` } });
  }
}

function answered(method: unknown, params: Params): unknown {
  const answer = answers.get(method);
  if (answer === undefined) throw new Refused({ code: -32601, message: `Method not found: ${method}` });
  return answer(params);
}

// Not node:readline, which would also end a line at U+2028 and U+2029: JSON strings may hold them.
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk: string) => {
  const lines = chunk.split("\n");
  lines[0] = rest + lines[0];
  rest = lines.pop() ?? "";
  lines.filter((line) => line.trim()).forEach(take);
});
