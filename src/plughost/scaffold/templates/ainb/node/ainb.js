// The contract ainb: JSON-RPC in frames, plugin/init first, plugin/shutdown last.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { BrokenWire, bodies, frame } = require("./frames.js");
const { claim } = require("./stdout.js");

const ABI_VERSION = 2;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;
const MANIFEST_VALIDATION = -32003;
const BOLD = 1;

/** Throw it to answer with an error. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const MARK = /[\p{Mn}\p{Me}\u200d]/u;
const WIDE = new RegExp(
  "[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\ua960-\\ua97c\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f" +
    "\\uff01-\\uff60\\uffe0-\\uffe6\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f6ff}\\u{1f900}-\\u{1f9ff}\\u{20000}-\\u{3fffd}]",
  "u",
);

/** Text as cells: each character with the marks on it, and an empty cell behind one that is two columns wide. */
function cells(text) {
  const found = [];
  for (const character of text) {
    if (found.length > 0 && MARK.test(character)) found[found.length - (found.at(-1) ? 1 : 2)] += character;
    else found.push(character, ...(WIDE.test(character) ? [""] : []));
  }
  return found;
}

/** A screen's worth of cells; what is painted outside is left out. */
class Screen {
  #cells = new Map();

  constructor(width, height) {
    this.width = width;
    this.height = height;
  }

  /** Writes text from a cell on, a character a cell or, when it is a wide one, in two. */
  put(x, y, text, style = 0) {
    cells(text).forEach((symbol, place) => {
      const column = x + place;
      if (column < 0 || column >= this.width || y < 0 || y >= this.height) return;
      this.#cells.set(`${column} ${y}`, [{ x: column, y }, { symbol, modifier: style }]);
    });
  }

  toJSON() {
    return { width: this.width, height: this.height, cells: [...this.#cells.values()] };
  }
}

/** Handles messages one at a time, in their order, until the host says shutdown or has gone.
 *
 * plugin.draw(screen) paints; plugin.key(key, screenId) hears a key; plugin.commands[namespace](argv, print)
 * runs a command line, may print(text) and returns the exit code. Each may be async.
 */
async function serve(plugin) {
  const write = claim();
  try {
    for await (const body of bodies(process.stdin)) {
      const message = parse(body);
      if (typeof message?.method !== "string") continue; // it answers nothing that was asked
      const answer = await reply(plugin, message);
      if (message.id !== undefined && message.id !== null) write(answer);
      if (message.method === "plugin/shutdown") break;
    }
  } catch (error) {
    if (!(error instanceof BrokenWire)) throw error;
    console.error(`the host's stream cannot be read: ${error.message}`);
    process.exitCode = 1;
  }
}

/** The message, or nothing: the contract drops what is none, and goes on. */
function parse(body) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch (error) {
    console.error(`dropped something that is not a message: ${error.message}`);
    return undefined;
  }
}

async function reply(plugin, { id, method, params }) {
  const envelope = { jsonrpc: "2.0", id };
  try {
    if (!Object.hasOwn(METHODS, method)) throw new Refusal(METHOD_NOT_FOUND, `method not found: ${method}`);
    demand(isObject(params), `${method} takes an object`);
    return frame(JSON.stringify({ ...envelope, result: (await METHODS[method](plugin, params)) ?? {} }));
  } catch (error) {
    const code = error instanceof Refusal ? error.code : INTERNAL_ERROR;
    if (code === INTERNAL_ERROR) console.error(error);
    return frame(JSON.stringify({ ...envelope, error: { code, message: String(error?.message ?? error) } }));
  }
}

const METHODS = {
  "plugin/init": (plugin, { abi_version, granted_capabilities }) => {
    demand(Number.isInteger(abi_version), "`abi_version` must be a number");
    demand(Array.isArray(granted_capabilities), "`granted_capabilities` must be a list");
    if (abi_version !== ABI_VERSION) {
      throw new Refusal(MANIFEST_VALIDATION, `the host speaks ABI ${abi_version}, this plugin ${ABI_VERSION}`);
    }
    const manifest = readManifest();
    const { name, version } = manifest.plugin;
    return { name, version, abi_version, manifest };
  },
  "plugin/shutdown": () => ({}),
  "plugin/render": async (plugin, { viewport }) => {
    const sides = [viewport?.width, viewport?.height];
    const right = sides.every((side) => Number.isInteger(side) && side >= 0 && side <= 65535);
    demand(right, "`viewport` must have two sides from 0 to 65535");
    const screen = new Screen(...sides);
    await plugin.draw(screen);
    return { buffer: screen };
  },
  "plugin/handle_key": async (plugin, { key, screen_id }) => {
    demand(typeof key?.code?.type === "string", "`key` must have a code");
    await plugin.key(key, screen_id);
  },
  "plugin/cli_dispatch": async (plugin, { namespace, argv }) => {
    demand(typeof namespace === "string", "`namespace` must be text");
    demand(Array.isArray(argv) && argv.every((word) => typeof word === "string"), "`argv` must be a list of words");
    if (!Object.hasOwn(plugin.commands, namespace)) {
      return { stdout: "", stderr: base64(`plugin does not handle namespace \`${namespace}\`\n`), exit_code: 2 };
    }
    let printed = "";
    const exit_code = (await plugin.commands[namespace](argv, (text) => (printed += text))) ?? 0;
    return { stdout: base64(printed), stderr: "", exit_code };
  },
};

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function demand(right, what) {
  if (!right) throw new Refusal(INVALID_PARAMS, what);
}

const base64 = (text) => Buffer.from(text).toString("base64");

/** manifest.toml, as long as each line is a [section], a comment, or a key and a value that JSON writes alike. */
function readManifest() {
  const manifest = {};
  let section = manifest;
  const text = fs.readFileSync(path.join(__dirname, "manifest.toml"), "utf8");
  for (const line of text.split("\n").map((line) => line.trim())) {
    const [key, value] = line.split(/\s*=\s*(.*)/);
    try {
      if (line === "" || line.startsWith("#")) continue;
      if (line.startsWith("[")) section = manifest[line.slice(1, -1)] = {};
      else section[key] = JSON.parse(value);
    } catch {
      throw new Refusal(MANIFEST_VALIDATION, `manifest.toml: not a section, or a key and a JSON value: ${line}`);
    }
  }
  return manifest;
}

module.exports = { BOLD, INVALID_PARAMS, Refusal, serve };
