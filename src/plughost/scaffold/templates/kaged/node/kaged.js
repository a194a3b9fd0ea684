// The contract kaged: JSON-RPC, a message a line, initialize first, until stdin ends.
// JSON.parse makes a double of every number: larger ones than 2 ** 53 do not come back as they were.
"use strict";

const { claim } = require("./stdout.js");

const API_VERSION = 1;
const MAX_MESSAGE = 4_000_000;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;

/** Throw it to answer with an error. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Answers calls one at a time; a method takes the params, and returns a value or a promise of one.
 *
 * Who calls, and on whose behalf, is in params._context. Name, version and methods are those of manifest.yaml.
 */
async function serve(plugin) {
  const write = claim();
  const answers = { ...protocol(plugin), ...plugin.methods };
  for await (const line of lines(process.stdin)) {
    const message = parse(line);
    if (typeof message?.method !== "string") continue; // it answers nothing that was asked
    const answer = await reply(answers, message);
    if (message.id !== undefined && message.id !== null) write(answer + "\n");
  }
}

const protocol = ({ name, version, methods }) => ({
  initialize: () => ({
    name,
    version,
    api_version: API_VERSION,
    methods: Object.keys(methods),
    notifications: [],
    capabilities_used: [],
  }),
  initialized: () => null,
  "health.check": () => ({ status: "ok" }),
  ping: () => ({ status: "ok" }),
  shutdown: () => ({ status: "ok" }), // the end of stdin is the end
});

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

/** The message, or nothing: the contract drops what is none, and goes on. */
function parse(line) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line);
    return text.trim() === "" ? undefined : JSON.parse(text);
  } catch (error) {
    console.error(`dropped something that is not a message: ${error.message}`);
    return undefined;
  }
}

async function reply(answers, { id, method, params }) {
  const said = (outcome) => JSON.stringify({ jsonrpc: "2.0", id, ...outcome });
  try {
    if (!Object.hasOwn(answers, method)) throw new Refusal(METHOD_NOT_FOUND, `method not found: ${method}`);
    const answer = said({ result: (await answers[method](params)) ?? null });
    const size = Buffer.byteLength(answer);
    if (size > MAX_MESSAGE) throw new RangeError(`an answer of ${size} bytes is over the limit of ${MAX_MESSAGE}`);
    return answer;
  } catch (error) {
    const code = error instanceof Refusal ? error.code : INTERNAL_ERROR;
    if (code === INTERNAL_ERROR) console.error(error);
    return said({ error: { code, message: String(error?.message ?? error).slice(0, 10_000) } });
  }
}

module.exports = { INVALID_PARAMS, Refusal, serve };
