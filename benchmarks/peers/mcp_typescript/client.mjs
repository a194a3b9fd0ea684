// Starts MCP servers and calls their tools, as lines on stdin say. benchmarks/contenders/apart.py has
// the list of orders.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { inFlight, oneAtATime } from "./timing.mjs";

const SIZE = 100;
const SERVER = fileURLToPath(new URL("server.mjs", import.meta.url));
const sdk = createRequire(import.meta.url)("./node_modules/@modelcontextprotocol/sdk/package.json");

const clients = [];

function payload(size) {
  return { text: "x".repeat(size - '{"text":""}'.length) };
}

/** A call to the plugin opened last. */
function call(args, name = "echo") {
  return clients.at(-1).callTool({ name, arguments: args });
}

async function check(size) {
  const sent = payload(size);
  const answer = await call(sent);
  if (answer.content[0].text !== sent.text) throw new Error("what came back is not what was sent");
}

function after(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1e3, { outcome: "hangs", said: "" }).unref());
}

const orders = {
  hello: () => ({ Node: process.versions.node, "@modelcontextprotocol/sdk": sdk.version }),

  async open({ count }) {
    const took = [];
    for (let number = 0; number < count; number += 1) {
      const began = performance.now();
      const client = new Client({ name: "benchmark", version: "1" });
      await client.connect(new StdioClientTransport({ command: process.execPath, args: [SERVER] }));
      clients.push(client);
      await check(SIZE);
      took.push((performance.now() - began) / 1e3);
    }
    return took;
  },

  async close() {
    while (clients.length) await clients.pop().close();
    return null;
  },

  tidy() {
    globalThis.gc();
    return null;
  },

  async one_at_a_time({ size, seconds }) {
    await check(size);
    const args = payload(size);
    return oneAtATime(() => call(args), seconds);
  },

  in_flight({ size, width, seconds }) {
    const args = payload(size);
    return inFlight(() => call(args), width, seconds);
  },

  attempt({ method, text, limit }) {
    const answered = call({ text }, method).then(
      (answer) => ({ outcome: "answer", said: answer.content[0].text.slice(0, 80) }),
      (error) => ({ outcome: "error", said: `${error.constructor.name}: ${error.message}` }),
    );
    return Promise.race([answered, after(limit)]);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await orders[order.do](order))}\n`);
}
await orders.close();
