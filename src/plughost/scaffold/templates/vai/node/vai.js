// The contract vai: vai.rpc.v1 in frames, hello first, shutdown last, and requests side by side.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { BrokenWire, bodies, frame } = require("./frames.js");
const { claim } = require("./stdout.js");

const PROTOCOL = "vai.rpc.v1";
const KINDS = {
  "tool.invoke": "tool",
  "hook.handle": "hook",
  "compactor.compact": "compactor",
  "harness.run": "harness",
};

/** Throw it for a failed result in your own words; `retryable` when another try may help. */
class Failed extends Error {
  constructor(message, retryable = false) {
    super(message);
    this.retryable = retryable;
  }
}

/** Handles requests side by side until the host says shutdown or has gone.
 *
 * plugin.tool[id](input, call) returns a value; plugin.hook[id](event, call) nothing; plugin.compactor[id](body, call)
 * and plugin.harness[id](body, call) their result. `call` has context, config, secrets, signal (an AbortSignal) and
 * event({type, …}). Each may be async.
 */
async function serve(plugin) {
  const write = claim();
  const send = (message) => write(frame(JSON.stringify({ protocol: PROTOCOL, ...message })));
  const open = new Map();
  try {
    for await (const body of bodies(process.stdin)) {
      const message = parse(body);
      if (message?.protocol !== PROTOCOL) console.error(`dropped a frame that is not a message of ${PROTOCOL}`);
      else if (message.type === "shutdown") break;
      else if (message.type === "hello") send({ type: "hello", role: "plugin", plugin: identity() });
      else if (message.type === "cancel") open.get(message.request_id)?.abort(message.reason);
      else if (message.type === "request" && typeof message.id === "string") begin(plugin, message, open, send);
      else console.error("dropped a frame that is neither hello, request, cancel nor shutdown");
    }
  } catch (error) {
    if (!(error instanceof BrokenWire)) throw error;
    console.error(`the host's stream cannot be read: ${error.message}`);
    process.exitCode = 1;
  }
  process.stdin.destroy();
  // What still runs may finish; a host waits for five seconds.
  setTimeout(() => open.forEach((each) => each.abort("shutdown")), 3000).unref();
}

/** Answers a request once, after its events; what is no request at once. */
function begin(plugin, { id, op, body }, open, send) {
  const kind = Object.hasOwn(KINDS, op) ? KINDS[op] : undefined;
  const refuse = (message) =>
    send({ type: "response", id, ok: false, error: { code: "protocol.invalid_frame", message } });
  if (!isObject(body)) return refuse("missing body");
  if (kind === undefined) return refuse("unknown op");
  const stop = new AbortController();
  const call = {
    context: body.context,
    config: body.config ?? {},
    secrets: body.secrets ?? {},
    signal: stop.signal,
    event: (event) => open.has(id) && send({ type: "event", request_id: id, event }),
  };
  open.set(id, stop);
  outcome(plugin, kind, body, call).then((told) => {
    open.delete(id);
    const answer = stop.signal.aborted ? { status: "cancelled" } : told;
    try {
      send({ type: "response", id, ok: true, body: answer });
    } catch (error) {
      send({ type: "response", id, ok: true, body: failure(kind, error) });
    }
  });
}

async function outcome(plugin, kind, body, call) {
  const exports = plugin[kind] ?? {};
  if (!Object.hasOwn(exports, body.export_id)) {
    return { status: "failed", error: { code: "export.unknown", message: "it has no such export" } };
  }
  try {
    const given = { tool: body.input, hook: body.event }[kind] ?? body;
    return success(kind, await exports[body.export_id](given, call));
  } catch (error) {
    return failure(kind, error);
  }
}

function success(kind, value) {
  if (kind === "hook") return { status: "ack" };
  if (kind !== "tool") return { status: "succeeded", result: value };
  const text = typeof value === "string" ? value : JSON.stringify(value ?? null);
  return { status: "succeeded", result: toolResult(text, value ?? null) };
}

function failure(kind, error) {
  if (!(error instanceof Failed)) console.error(error);
  const message = String(error?.message ?? error).slice(0, 10_000);
  const retryable = error?.retryable === true;
  const told = { status: retryable ? "retryable_failure" : "failed", error: { code: "plugin.failed", message } };
  return kind === "tool" ? { ...told, result: toolResult(message, null, { is_error: true, retryable }) } : told;
}

function toolResult(text, structured_output, { is_error = false, retryable = false } = {}) {
  return { content: [{ type: "text", text }], structured_output, is_error, retryable };
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(body) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    return undefined;
  }
}

/** Who it is, from the first lines of vai-plugin.toml, which come before any table. */
function identity() {
  const text = fs.readFileSync(path.join(__dirname, "vai-plugin.toml"), "utf8").split("\n[")[0];
  const value = (key) => JSON.parse(new RegExp(`^${key}\\s*=\\s*(".*?")`, "m").exec(text)[1]);
  return { package_id: value("package_id"), version: value("version") };
}

module.exports = { Failed, serve };
