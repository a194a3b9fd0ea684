// What a plugin of the comparison can do: text in, text out. benchmarks/plugins/deeds.py has the same.
import { spawn } from "node:child_process";

export const deeds = {
  echo: (text) => text,
  hang(text) {
    // Works without an end, and minds nothing else.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
    return text;
  },
  noise(text) {
    console.log("loading the model ...");
    return text;
  },
  huge: (text) => "x".repeat(Number(text)),
  child(text) {
    spawn("sleep", ["60"], { stdio: "ignore" });
    return text;
  },
};
