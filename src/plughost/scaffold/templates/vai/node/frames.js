// Frames: `Content-Length: n`, CRLF, CRLF, n bytes.
"use strict";

const MAX_HEADER = 8 << 10;
const MAX_BODY = 16 << 20;

/** The bytes that came make no frame, and there is no way to read on. */
class BrokenWire extends Error {}

/** The body of each frame, until the stream ends between two of them. */
async function* bodies(stream) {
  let pieces = [];
  let have = 0;
  let wanted = 0; // with fewer bytes there is nothing new to see
  for await (const chunk of stream) {
    pieces.push(chunk);
    have += chunk.length;
    if (have < wanted) continue;
    let held = Buffer.concat(pieces);
    let next = split(held);
    for (; next.body; next = split(held)) {
      yield next.body;
      held = next.rest;
    }
    [pieces, have, wanted] = [[held], held.length, next.wanted];
  }
  if (have > 0) throw new BrokenWire("the stream ended inside a frame");
}

/** The first frame and what follows it; or how many bytes are wanted to see more. */
function split(held) {
  const end = held.subarray(0, MAX_HEADER).indexOf("\r\n\r\n");
  if (end < 0 && held.length >= MAX_HEADER) throw new BrokenWire(`a header of more than ${MAX_HEADER} bytes`);
  if (end < 0) return { wanted: held.length + 1 };
  const stop = end + 4 + bodyLength(held.toString("latin1", 0, end));
  if (held.length < stop) return { wanted: stop };
  return { body: held.subarray(end + 4, stop), rest: held.subarray(stop) };
}

function bodyLength(block) {
  let length = null;
  for (const line of block.split("\r\n")) {
    if (/^[ \t]*content-type[ \t]*:/i.test(line)) continue; // as LSP has it
    const match = /^[ \t]*content-length[ \t]*:[ \t]*\+?(\d+)[ \t]*$/i.exec(line);
    if (!match || length !== null) throw new BrokenWire(`not a header: ${line.slice(0, 80)}`);
    length = Number(match[1]);
  }
  if (length === null) throw new BrokenWire("a header without Content-Length");
  if (length > MAX_BODY) throw new BrokenWire(`a body of ${length} bytes is over the limit of ${MAX_BODY}`);
  return length;
}

function frame(text) {
  const body = Buffer.from(text);
  if (body.length > MAX_BODY) throw new RangeError(`a message of ${body.length} bytes is over the limit of ${MAX_BODY}`);
  return Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]);
}

module.exports = { BrokenWire, bodies, frame };
