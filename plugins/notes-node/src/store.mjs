// Notes as Markdown files: a line of JSON about the note, then its content.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = process.env.KAGED_CONFIG_ROOT ?? join(process.env.HOME ?? ".", ".config/kaged");
const NOTE = /^([0-9a-f]{16})\.md$/;

// Encoded, so that no project's name leads out of the store.
const folderOf = (project) => join(ROOT, "memory", encodeURIComponent(project).replace(/^\.+$/, "dots-$&"), "agent");

export const isId = (id) => typeof id === "string" && NOTE.test(`${id}.md`);

export function write(project, about, content) {
  const folder = folderOf(project);
  execFileSync("mkdir", ["-p", folder]);
  const id = randomBytes(8).toString("hex");
  const unfinished = join(folder, `${id}.part`);
  const file = openSync(unfinished, "wx", 0o600);
  try {
    writeFileSync(file, `${JSON.stringify(about)}\n${content}`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(unfinished, join(folder, `${id}.md`));
  return id;
}

export function readAll(project) {
  const folder = folderOf(project);
  return missingIs([], () => readdirSync(folder))
    .filter((name) => NOTE.test(name))
    .map((name) => {
      const text = readFileSync(join(folder, name), "utf8");
      const end = text.indexOf("\n");
      return { id: name.slice(0, 16), ...JSON.parse(text.slice(0, end)), content: text.slice(end + 1) };
    });
}

// Whether it was there.
export function remove(project, id) {
  return missingIs(false, () => {
    rmSync(join(folderOf(project), `${id}.md`));
    return true;
  });
}

function missingIs(otherwise, work) {
  try {
    return work();
  } catch (error) {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  }
}
