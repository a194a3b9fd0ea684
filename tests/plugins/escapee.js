// escapee.py for Node: the same tries by the same words, in whichever contract it is spoken to.
"use strict";
const fs = require("fs");
const net = require("net");
const path = require("path");
const dgram = require("dgram");
const { spawnSync } = require("child_process");
const { Worker } = require("worker_threads");

const name = path.basename(process.argv[1]);

function connected(where) {
  return new Promise((done, failed) => {
    const wire = net.connect(where, () => (wire.destroy(), done()));
    wire.on("error", failed);
  });
}

function answered(port) {
  return new Promise((done, failed) => {
    const wire = dgram.createSocket("udp4");
    const end = (how, what) => (wire.close(), clearTimeout(late), how(what));
    const late = setTimeout(() => end(failed, new Error("no answer")), 20000);
    wire.on("error", (error) => end(failed, error));
    wire.on("message", () => end(done));
    wire.connect(port, "127.0.0.1", (error) => (error ? end(failed, error) : wire.send("?")));
  });
}

// Threads count as processes do, and forty of them are not forty times Node.
async function many(count) {
  const workers = [];
  try {
    for (let made = 0; made < count; made++) {
      const worker = new Worker("setInterval(() => {}, 1e6)", { eval: true });
      workers.push(worker);
      await new Promise((done, failed) => worker.on("online", done).on("error", failed));
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

const tries = {
  read: (file) => fs.readSync(fs.openSync(file), Buffer.alloc(1)),
  write: (file) => fs.appendFileSync(file, "x"),
  tcp: (port) => connected({ host: "127.0.0.1", port }),
  udp: (port) => answered(Number(port)),
  unix: (place) => connected({ path: place }),
  kill: (pid) => process.kill(Number(pid), 0),
  environ: (pid) => fs.readFileSync(`/proc/${pid}/environ`),
  proc: (pid) => fs.readFileSync(`/proc/${pid}/cmdline`),
  forks: (count) => many(Number(count)),
  memory: (size) => Buffer.alloc(Number(size)),
  run: (program) => {
    const { error } = spawnSync(program, { stdio: "ignore" });
    if (error) throw error;
  },
};

async function answers(text) {
  const told = {};
  for (const each of text.split(";")) {
    const [what, ...words] = each.split(" ");
    try {
      await tries[what](...words);
      told[what] = "done";
    } catch (error) {
      told[what] = error.code ?? error.message;
    }
  }
  return told;
}

async function handle(heard) {
  const { id, method, request_id } = heard;
  if (heard.type === "hello") {
    const plugin = { package_id: "acme/escapee", version: "1.0.0" };
    return { protocol: "vai.rpc.v1", type: "hello", role: "plugin", plugin };
  }
  if (heard.type === "request" && heard.protocol === "vai.rpc.v1") {
    const result = { content: [], structured_output: await answers(heard.body.input.tries) };
    return { protocol: "vai.rpc.v1", type: "response", id, ok: true, body: { status: "succeeded", result } };
  }
  if (heard.type === "handshake") {
    const manifest = { plugin_id: name, plugin_version: "1.0.0", exposed_tools: ["try"] };
    return { type: "handshake", manifest: { ...manifest, protocol_version: heard.protocol_version } };
  }
  if (request_id !== undefined) {
    return { type: "response", request_id, status: "ok", output: await answers(heard.input.tries) };
  }
  if (id === undefined) return undefined;
  if (method === "try" || method === "escapee.try") return { jsonrpc: "2.0", id, result: await answers(heard.params.tries) };
  return { jsonrpc: "2.0", id, result: { name, version: "1.0.0", api_version: 1, methods: ["escapee.try"] } };
}

function say(answer, framed) {
  if (answer === undefined) return;
  const body = JSON.stringify(answer);
  process.stdout.write(framed ? `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}` : body + "\n");
}

let rest = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (;;) {
    const end = rest.indexOf("\n");
    if (end < 0) return;
    const length = /^Content-Length: *(\d+)/.exec(rest.toString("latin1", 0, end));
    const from = length ? end + 3 : 0;
    const to = length ? from + Number(length[1]) : end;
    if (rest.length < to) return;
    const body = JSON.parse(rest.toString("utf8", from, to));
    rest = rest.subarray(length ? to : to + 1);
    handle(body).then((answer) => say(answer, Boolean(length)));
  }
});
