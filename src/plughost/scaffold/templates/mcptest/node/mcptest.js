// The contract mcptest: a request a line on stdin, a response a line on stdout, until stdin ends.
// JSON.parse makes a double of every number: larger ones than 2 ** 53 do not come back as they were.
"use strict";

const { claim } = require("./stdout.js");

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
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

/** Answers requests one at a time; a method takes the params, and returns a value or a promise of one. */
async function serve(methods) {
  const write = claim();
  for await (const line of lines(process.stdin)) write((await reply(methods, line)) + "\n");
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

async function reply(methods, line) {
  let id = null;
  try {
    const request = parse(line);
    id = request.id ?? null;
    return JSON.stringify({ id, result: (await call(methods, request)) ?? null });
  } catch (error) {
    const code = error instanceof Refusal ? error.code : INTERNAL_ERROR;
    if (code === INTERNAL_ERROR) console.error(error);
    return JSON.stringify({ id, error: { code, message: String(error?.message ?? error) } });
  }
}

function parse(line) {
  let request;
  try {
    request = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line));
  } catch (error) {
    throw new Refusal(PARSE_ERROR, `not JSON: ${error.message}`);
  }
  if (typeof request !== "object" || request === null || Array.isArray(request)) {
    throw new Refusal(INVALID_REQUEST, "a request is an object");
  }
  return request;
}

function call(methods, { method, params }) {
  if (typeof method !== "string" || !Object.hasOwn(methods, method)) {
    throw new Refusal(METHOD_NOT_FOUND, `no method ${method}; there are: ${Object.keys(methods).join(", ")}`);
  }
  return methods[method](params);
}

module.exports = { INVALID_PARAMS, Refusal, serve };
