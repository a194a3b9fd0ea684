// The reference kaged plugin for Node: what it is given, it gives back, tells, or keeps in the host's storage.
// JSON.parse makes a double of every number: 12345678901234567890 and 1e400 do not come back as they were.
"use strict";

class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

let count = 0;
const asked = new Map();

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

function ask(method, params) {
  const id = ++count;
  send({ id, method, params });
  return new Promise((resolve, reject) => asked.set(id, { resolve, reject }));
}

const answers = {
  initialize: () => ({
    name: "echo-kaged-node",
    version: "1.0.0",
    api_version: 1,
    methods: ["echo.back", "echo.fail", "echo.announce", "echo.keep"],
    notifications: ["echo.said"],
    capabilities_used: [],
  }),
  shutdown: () => ({ status: "ok" }),
  "health.check": () => ({ status: "ok" }),
  ping: () => ({ status: "ok" }), // what published plugins know in place of health.check
  "kaged.hook.on_session_start": () => ({ inject: "echo is here" }),
  "echo.back": (params) => params,
  "echo.fail": (data) => {
    throw new Refused({ code: -32000, message: "you asked for it", data });
  },
  "echo.announce": (params) => {
    send({ method: "echo.said", params });
    return {};
  },
  "echo.keep": async ({ key, value }) => {
    await ask("kaged.storage.set", { key, value });
    return ask("kaged.storage.get", { key });
  },
};

async function take({ id, method, params, result, error }) {
  if (method === undefined) {
    const waiting = asked.get(id);
    asked.delete(id);
    if (waiting) error ? waiting.reject(new Refused(error)) : waiting.resolve(result);
  } else if (id !== undefined) {
    try {
      if (!Object.hasOwn(answers, method)) throw new Refused({ code: -32601, message: `method not found: ${method}` });
      send({ id, result: await answers[method](params) });
    } catch (problem) {
      send({ id, error: problem.error ?? { code: -32602, message: `wrong params of ${method}: ${problem.message}` } });
    }
  }
}

// Not node:readline, which would also end a line at U+2028 and U+2029: JSON strings may hold them.
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const lines = chunk.split("\n");
  lines[0] = rest + lines[0];
  rest = lines.pop();
  for (const line of lines) {
    try {
      take(JSON.parse(line) ?? {});
    } catch {
      // No JSON: nobody could be answered.
    }
  }
});
