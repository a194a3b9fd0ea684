// What the tools and hooks do.
import { atLeastOne, contextOf, idOf, LONGEST, optionalText, Refused, tagsOf, text, type Params } from "./params.ts";
import { isId, readAll, remove, write, type Note } from "./store.ts";

export type Answer = (params: Params) => unknown;

const MAX_BYTES = 102_400;
const INJECTED = 5;
const ENVELOPE = 1000; // bytes of an answer around its results, and more than enough

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

const wordsOf = (text: string): string[] =>
  text.normalize("NFKC").toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

const newestFirst = (a: Note, b: Note): number =>
  b.created_at.localeCompare(a.created_at) || a.id.localeCompare(b.id);

// How many of the query's words it has; the rarer one is, the more it counts.
function scored(notes: Note[], query: string): (Note & { score: number })[] {
  const wanted = [...new Set(wordsOf(query))];
  const held = notes.map((note) => ({
    note,
    words: new Set(wordsOf([note.content, note.context ?? "", ...note.tags].join(" "))),
  }));
  const weights = wanted.map((word) => {
    const having = held.filter(({ words }) => words.has(word)).length;
    return { word, weight: Math.log(1 + notes.length / (1 + having)) };
  });
  return held
    .map(({ note, words }) => ({
      ...note,
      score: weights.reduce((sum, { word, weight }) => sum + (words.has(word) ? weight : 0), 0),
    }))
    .filter((note) => note.score > 0 || wanted.length === 0)
    .sort((a, b) => b.score - a.score || newestFirst(a, b));
}

function retain(params: Params): { status: "stored"; id: string } {
  const content = text(params, "content");
  const actual_bytes = Buffer.byteLength(content);
  if (actual_bytes > MAX_BYTES) {
    const data = { code: "content_too_large", actual_bytes, max_bytes: MAX_BYTES };
    throw new Refused({ code: -32000, message: "content too large", data });
  }
  const { project, agent } = contextOf(params);
  const about = {
    created_at: new Date().toISOString(),
    agent_path: agent,
    tags: tagsOf(params),
    context: optionalText(params, "context") ?? null,
  };
  return { status: "stored", id: write(project, about, content) };
}

// The best of them, as many as one answer has room for.
function fitting(notes: Note[], room: number): Note[] {
  const end = notes.findIndex((note) => (room -= bytesOf(note) + 1) < 0);
  return end < 0 ? notes : notes.slice(0, end);
}

function recall(params: Params): { count: number; results: Note[]; query: string; left_out?: number } {
  const query = text(params, "query");
  const wanted = tagsOf(params);
  const most = atLeastOne(params, "max_results", 10);
  const notes = readAll(contextOf(params).project);
  const tagged = notes.filter((note) => wanted.every((tag) => note.tags.includes(tag)));
  const found = scored(tagged, query).slice(0, most);
  const results = fitting(found, LONGEST - ENVELOPE - bytesOf(query));
  const left_out = found.length - results.length;
  return { count: results.length, results, query, ...(left_out && { left_out }) };
}

function forget(params: Params): { status: "forgotten" | "not_found"; id: string } {
  const id = idOf(params, isId);
  return { status: remove(contextOf(params).project, id) ? "forgotten" : "not_found", id };
}

function listTags(params: Params): { tags: string[]; count: number } {
  const tags = [...new Set(readAll(contextOf(params).project).flatMap((note) => note.tags))].sort();
  return { tags, count: tags.length };
}

function inject(params: Params): { inject?: string } {
  const notes = readAll(contextOf(params).project).sort(newestFirst).slice(0, INJECTED);
  return notes.length ? { inject: notes.map((note) => `- ${note.content}`).join("\n") } : {};
}

function keepCompacted(params: Params): { retain: never[] } {
  const said = optionalText(params, "messages_being_compacted") ?? "";
  const leaving = Buffer.from(said).subarray(-MAX_BYTES).toString();
  const content = leaving.replace(/^\uFFFD+/, ""); // where a character was cut in two
  if (content.trim()) retain({ ...params, content, tags: ["compacted"] });
  return { retain: [] };
}

export const tools: Readonly<Record<string, Answer>> = { retain, recall, forget, list_tags: listTags };

export const hooks: Readonly<Record<string, Answer>> = {
  on_session_start: inject,
  on_session_idle: () => null,
  pre_compact: () => null,
  post_compact: keepCompacted,
};
