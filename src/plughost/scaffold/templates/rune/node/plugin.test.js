"use strict";

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { test } = require("node:test");

/** What the plugin says to these lines, and that it ends well after them. */
function converse(...messages) {
  const input = messages.map((message) => JSON.stringify(message) + "\n").join("");
  const ran = spawnSync(process.execPath, ["plugin.js"], { cwd: __dirname, input, encoding: "utf8" });
  assert.strictEqual(ran.status, 0, ran.stderr);
  return ran.stdout.trimEnd().split("\n").map(JSON.parse);
}

const HANDSHAKE = { type: "handshake", protocol_version: "rterm.plugin.v1" };
const request = (tool_name, input) => ({ type: "request", request_id: "r1", tool_name, context: {}, input });

test("it says who it is", () => {
  const [{ manifest }] = converse(HANDSHAKE);
  assert.strictEqual(manifest.plugin_id, "{{name}}");
  assert.strictEqual(manifest.protocol_version, "rterm.plugin.v1");
  assert.deepStrictEqual(manifest.exposed_tools, ["greet"]);
});

test("it greets", () => {
  const [, answer] = converse(HANDSHAKE, request("greet", { name: "Ada" }));
  const output = { greeting: "Hello, Ada!" };
  assert.deepStrictEqual(answer, { type: "response", request_id: "r1", status: "ok", output });
});

test("wrong input is refused", () => {
  for (const input of [{}, { name: 1 }, ["Ada"]]) {
    const [, answer] = converse(HANDSHAKE, request("greet", input));
    assert.deepStrictEqual([answer.status, answer.error.code], ["error", "invalid_input"]);
  }
});

test("a tool that it does not have", () => {
  const [, answer] = converse(HANDSHAKE, request("toString", {}));
  assert.deepStrictEqual([answer.status, answer.error.code], ["error", "unknown_tool"]);
});
