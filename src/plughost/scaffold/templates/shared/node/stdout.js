// Keeps stdout for the host: whatever else is printed goes to stderr, the host's log.
"use strict";

/** Takes stdout; the function returned is the only way left to write to it. */
function claim() {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  stdout.on("error", () => process.exit(0)); // the host has gone
  return write;
}

module.exports = { claim };
