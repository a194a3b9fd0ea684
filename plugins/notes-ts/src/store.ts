// Notes as Markdown files: a line of JSON about the note, then its content.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";

export interface About {
  readonly created_at: string;
  readonly agent_path: string;
  readonly tags: readonly string[];
  readonly context: string | null;
}

export interface Note extends About {
  readonly id: string;
  readonly content: string;
}

const ROOT = process.env["KAGED_CONFIG_ROOT"] ?? join(process.env["HOME"] ?? ".", ".config/kaged");
const NOTE = /^([0-9a-f]{16})\.md$/;

// Encoded, so that no project's name leads out of the store.
const folderOf = (project: string): string =>
  join(ROOT, "memory", encodeURIComponent(project).replace(/^\.+$/, "dots-$&"), "agent");

export const isId = (id: string): boolean => NOTE.test(`${id}.md`);

export function write(project: string, about: About, content: string): string {
  const folder = folderOf(project);
  execFileSync("mkdir", ["-p", folder]);
  const id = randomBytes(8).toString("hex");
  const unfinished = join(folder, `${id}.part`);
  const file = fs.openSync(unfinished, "wx", 0o600);
  try {
    fs.writeFileSync(file, `${JSON.stringify(about)}\n${content}`);
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
  fs.renameSync(unfinished, join(folder, `${id}.md`));
  return id;
}

export function readAll(project: string): Note[] {
  const folder = folderOf(project);
  return missingIs([], () => fs.readdirSync(folder))
    .filter((name) => NOTE.test(name))
    .map((name) => {
      const text = fs.readFileSync(join(folder, name), "utf8");
      const end = text.indexOf("\n");
      const about = JSON.parse(text.slice(0, end)) as About;
      return { id: name.slice(0, 16), ...about, content: text.slice(end + 1) };
    });
}

// Whether it was there.
export function remove(project: string, id: string): boolean {
  return missingIs(false, () => {
    fs.rmSync(join(folderOf(project), `${id}.md`));
    return true;
  });
}

function missingIs<T>(otherwise: T, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return otherwise;
    throw error;
  }
}
