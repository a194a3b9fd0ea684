// The contract rune: a handshake, a request and a response, a line each, and then the end.
"use strict";

const { claim } = require("./stdout.js");

const PROTOCOL = "rterm.plugin.v1";

/** Throw it to answer with an error: a code in your own words, and a message. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Answers one call; a tool takes its input and the context, and returns a value or a promise of one. */
async function serve({ id, version, capabilities, tools }) {
  const write = claim();
  const send = (message) => write(JSON.stringify(message) + "\n");
  let greeted = false;
  let answered = false;
  for await (const line of lines(process.stdin)) {
    if (answered) continue; // until the host is done, too
    const message = parse(line, greeted ? "request" : "handshake");
    if (!greeted) {
      const exposed_tools = Object.keys(tools);
      const about = { plugin_id: id, plugin_version: version, protocol_version: PROTOCOL };
      const manifest = { ...about, exposed_tools, capabilities };
      send({ type: "handshake", manifest });
      greeted = true;
    } else {
      send({ type: "response", request_id: message.request_id, ...(await execute(tools, message)) });
      answered = true;
    }
  }
}

// Not node:readline, which takes wrong UTF-8 for text, and U+2028 for the end of a line.
async function* lines(stream) {
  let pieces = [];
  for await (let chunk of stream) {
    for (let end; (end = chunk.indexOf("\n")) >= 0; chunk = chunk.subarray(end + 1)) {
      yield Buffer.concat([...pieces, chunk.subarray(0, end)]);
      pieces = [];
    }
    pieces.push(chunk);
  }
  const rest = Buffer.concat(pieces);
  if (rest.length > 0) yield rest;
}

/** A message of the type that is due; anything else ends the plugin with an exit code. */
function parse(line, type) {
  const message = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line));
  if (message?.type !== type) throw new Error(`the host sent something other than a ${type}: ${line.subarray(0, 80)}`);
  return message;
}

async function execute(tools, { tool_name, input, context }) {
  try {
    if (!Object.hasOwn(tools, tool_name)) throw new Refusal("unknown_tool", `no tool ${tool_name}`);
    const output = (await tools[tool_name](input, context)) ?? null;
    JSON.stringify(output); // what cannot be sent is the tool's failure, too
    return { status: "ok", output };
  } catch (error) {
    const refused = error instanceof Refusal;
    if (!refused) console.error(error);
    const message = String(error?.message || error);
    return { status: "error", error: { code: refused ? error.code : "failed", message } };
  }
}

module.exports = { Refusal, serve };
