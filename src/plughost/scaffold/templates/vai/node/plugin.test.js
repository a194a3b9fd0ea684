"use strict";

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { Readable } = require("node:stream");
const { test } = require("node:test");
const { bodies, frame } = require("./frames.js");

/** What the plugin says to these messages, and that it ends well after them. */
async function ask(...messages) {
  const all = [{ type: "hello", role: "host", host: { name: "test", version: "1" } }, ...messages, { type: "shutdown" }];
  const input = Buffer.concat(all.map((message) => frame(JSON.stringify({ protocol: "vai.rpc.v1", ...message }))));
  const ran = spawnSync("bin/plugin", { cwd: __dirname, input });
  assert.strictEqual(ran.status, 0, ran.stderr.toString());
  const said = [];
  for await (const body of bodies(Readable.from([ran.stdout]))) said.push(JSON.parse(body));
  return said;
}

const request = (input, { id = "a", export_id = "greet", op = "tool.invoke" } = {}) => ({
  type: "request",
  id,
  op,
  body: { export_id, context: { invocation_id: "inv_1" }, tool_execution_id: "toolx_1", input },
});

test("it is what its manifest says", async () => {
  const [hello] = await ask();
  assert.deepStrictEqual(hello.plugin, { package_id: "example/{{name}}", version: "0.1.0" });
});

test("it greets", async () => {
  const [, event, answer] = await ask(request({ name: "Ada" }));
  assert.deepStrictEqual([event.request_id, event.event.message], ["a", "greeting Ada"]);
  assert.deepStrictEqual([answer.ok, answer.body.status], [true, "succeeded"]);
  assert.deepStrictEqual(answer.body.result.structured_output, { greeting: "Hello, Ada!" });
});

test("wrong input is a failed result", async () => {
  for (const input of [undefined, null, {}, { name: 1 }, ["Ada"]]) {
    const [, answer] = await ask(request(input));
    assert.deepStrictEqual([answer.ok, answer.body.status, answer.body.result.is_error], [true, "failed", true]);
  }
});

test("what it cannot do is refused", async () => {
  const said = await ask(request({}, { id: "a", export_id: "toString" }), request({}, { id: "b", op: "tool.sing" }));
  const answers = Object.fromEntries(said.slice(1).map((message) => [message.id, message]));
  assert.strictEqual(answers.a.body.error.code, "export.unknown");
  assert.deepStrictEqual([answers.b.ok, answers.b.error.code], [false, "protocol.invalid_frame"]);
});
