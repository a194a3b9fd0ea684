"use strict";

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { test } = require("node:test");

/** What the plugin answers to these requests, and that it ends well after them. */
function ask(...requests) {
  const input = requests.map((request, id) => JSON.stringify({ jsonrpc: "2.0", id, ...request }) + "\n").join("");
  const ran = spawnSync(process.execPath, ["plugin.js"], { cwd: __dirname, input, encoding: "utf8" });
  assert.strictEqual(ran.status, 0, ran.stderr);
  return ran.stdout.trimEnd().split("\n").map(JSON.parse);
}

const greet = (params) => ({ method: "{{name}}.greet", params });

test("it says who it is, and that it is well", () => {
  const [about, health] = ask({ method: "initialize", params: { api_version: 1 } }, { method: "health.check", params: {} });
  const { name, api_version, methods } = about.result;
  assert.deepStrictEqual([name, api_version, methods], ["{{name}}", 1, ["{{name}}.greet"]]);
  assert.deepStrictEqual(health.result, { status: "ok" });
});

test("it greets", () => {
  const [answer] = ask(greet({ name: "Ada" }));
  assert.deepStrictEqual(answer, { jsonrpc: "2.0", id: 0, result: { greeting: "Hello, Ada!" } });
});

test("wrong params are refused, and the next call is served", () => {
  for (const params of [undefined, null, {}, { name: 1 }, ["Ada"]]) {
    const [refused, served] = ask(greet(params), greet({ name: "Ada" }));
    assert.deepStrictEqual([refused.id, refused.error.code], [0, -32602]);
    assert.deepStrictEqual([served.id, served.result.greeting], [1, "Hello, Ada!"]);
  }
});

test("a method that it does not have", () => {
  const [answer] = ask({ method: "toString", params: {} });
  assert.strictEqual(answer.error.code, -32601);
});
