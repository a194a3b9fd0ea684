"use strict";

const assert = require("node:assert");
const { spawnSync } = require("node:child_process");
const { Readable } = require("node:stream");
const { test } = require("node:test");
const { bodies, frame } = require("./frames.js");

/** What the plugin answers to these requests, and that it ends well after them. */
async function ask(...requests) {
  const init = { method: "plugin/init", params: { manifest_path: "", granted_capabilities: [], abi_version: 2 } };
  const input = Buffer.concat(
    [init, ...requests].map((request, id) => frame(JSON.stringify({ jsonrpc: "2.0", id, ...request }))),
  );
  const ran = spawnSync("./{{name}}", { cwd: __dirname, input });
  assert.strictEqual(ran.status, 0, ran.stderr.toString());
  const answers = [];
  for await (const body of bodies(Readable.from([ran.stdout]))) answers.push(JSON.parse(body));
  return answers;
}

const render = (width, height) => ({ method: "plugin/render", params: { viewport: { width, height } } });
const press = (code) => ({ id: undefined, method: "plugin/handle_key", params: { screen_id: "{{name}}", key: { code } } });

/** The lines of a screen. */
function lines({ width, height, cells }) {
  const rows = Array.from({ length: height }, () => Array(width).fill(" "));
  for (const [{ x, y }, { symbol }] of cells) rows[y][x] = symbol;
  return rows.map((row) => row.join("").trimEnd());
}

test("it says who it is", async () => {
  const [{ result }] = await ask();
  assert.deepStrictEqual([result.name, result.abi_version], ["{{name}}", 2]);
  assert.deepStrictEqual(result.manifest.provides.screens, ["{{name}}"]);
});

test("the screen greets and shows the last key", async () => {
  const answers = await ask(
    render(40, 5),
    press({ type: "char", ch: "x" }),
    render(40, 5),
    press({ type: "esc" }),
    render(40, 5),
    render(5, 1),
  );
  const screens = answers.slice(1).map(({ result }) => lines(result.buffer));
  assert.deepStrictEqual(screens[0].slice(0, 2), ["Hello, world!", "Last key: none yet"]);
  assert.strictEqual(screens[1][1], "Last key: x");
  assert.strictEqual(screens[2][1], "Last key: esc");
  assert.deepStrictEqual(screens[3], ["Hello"]);
});

test("the command line", async () => {
  const [, { result }] = await ask({ method: "plugin/cli_dispatch", params: { namespace: "{{name}}", argv: ["Ada"] } });
  assert.strictEqual(Buffer.from(result.stdout, "base64").toString(), "Hello, Ada!\n");
  assert.strictEqual(result.exit_code, 0);
});

test("what it cannot do is refused", async () => {
  const [, unknown, wrong] = await ask({ method: "sing", params: {} }, render("wide", 1));
  assert.deepStrictEqual([unknown.error.code, wrong.error.code], [-32601, -32602]);
});
