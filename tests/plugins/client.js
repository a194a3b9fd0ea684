// An mcptest plugin that fetches what it is told to, with Node's own fetch, which knows of no proxy.
"use strict";
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", async (chunk) => {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const { id, params } = JSON.parse(line);
    let result;
    try {
      result = await (await fetch(params[0])).text();
    } catch (error) {
      result = `failed: ${error.cause?.code ?? error.message}`;
    }
    process.stdout.write(JSON.stringify({ id, result }) + "\n");
  }
});
