"use strict";

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { test } = require("node:test");

/** What the plugin answers to these lines, and that it ends well after them. */
function ask(...requests) {
  const input = requests.map((request) => JSON.stringify(request) + "\n").join("");
  const ran = spawnSync(process.execPath, ["plugin.js"], { cwd: __dirname, input, encoding: "utf8" });
  assert.strictEqual(ran.status, 0, ran.stderr);
  return ran.stdout.trimEnd().split("\n").map(JSON.parse);
}

test("it greets", () => {
  const [answer] = ask({ id: 1, method: "greet", params: { name: "Ada" } });
  assert.deepStrictEqual(answer, { id: 1, result: { greeting: "Hello, Ada!" } });
});

test("wrong params are refused, and the next call is served", () => {
  for (const params of [undefined, null, {}, { name: 1 }, ["Ada"]]) {
    const [refused, served] = ask(
      { id: "a", method: "greet", params },
      { id: "b", method: "greet", params: { name: "Ada" } },
    );
    assert.deepStrictEqual([refused.id, refused.error.code], ["a", -32602]);
    assert.deepStrictEqual([served.id, served.result.greeting], ["b", "Hello, Ada!"]);
  }
});

test("a method that it does not have", () => {
  const [answer] = ask({ id: 1, method: "toString" });
  assert.strictEqual(answer.error.code, -32601);
});
