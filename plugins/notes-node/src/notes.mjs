// What the tools and hooks do.
import { isId, readAll, remove, write } from "./store.mjs";

export const MAX_BYTES = 102_400;
const INJECTED = 5;

export class Refused extends Error {
  constructor(code, message, data) {
    super(message);
    this.error = { code, message, data };
  }
}

const projectOf = (params) => params._context?.project_id || process.env.KAGED_PROJECT_ID || "unknown";
const wordsOf = (text) => text.normalize("NFKC").toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

function text(params, name) {
  if (typeof params[name] !== "string") throw new Refused(-32602, `missing required parameter: ${name}`);
  return params[name];
}

function tagsOf({ tags = [] }) {
  if (!Array.isArray(tags) || !tags.every((tag) => typeof tag === "string"))
    throw new Refused(-32602, "tags must be a list of texts");
  return [...new Set(tags.map((tag) => tag.trim().toLowerCase()))].sort();
}

function newestFirst(a, b) {
  return b.created_at.localeCompare(a.created_at) || a.id.localeCompare(b.id);
}

// How many of the query's words it has; the rarer one is, the more it counts.
function scored(notes, query) {
  const wanted = [...new Set(wordsOf(query))];
  const held = notes.map((note) => new Set(wordsOf([note.content, note.context ?? "", ...note.tags].join(" "))));
  const weight = new Map(
    wanted.map((word) => [word, Math.log(1 + notes.length / (1 + held.filter((words) => words.has(word)).length))]),
  );
  return notes
    .map((note, at) => ({
      ...note,
      score: wanted.reduce((sum, word) => sum + (held[at].has(word) ? weight.get(word) : 0), 0),
    }))
    .filter((note) => note.score > 0 || wanted.length === 0)
    .sort((a, b) => b.score - a.score || newestFirst(a, b));
}

function retain(params) {
  const content = text(params, "content");
  const actual_bytes = Buffer.byteLength(content);
  if (actual_bytes > MAX_BYTES)
    throw new Refused(-32000, "content too large", { code: "content_too_large", actual_bytes, max_bytes: MAX_BYTES });
  const about = {
    created_at: new Date().toISOString(),
    agent_path: params._context?.agent_path ?? "primary",
    tags: tagsOf(params),
    context: params.context ?? null,
  };
  return { status: "stored", id: write(projectOf(params), about, content) };
}

function recall(params) {
  const query = text(params, "query");
  const wanted = tagsOf(params);
  const most = params.max_results ?? 10;
  if (!Number.isInteger(most) || most < 1) throw new Refused(-32602, "max_results must be a positive integer");
  const notes = readAll(projectOf(params)).filter((note) => wanted.every((tag) => note.tags.includes(tag)));
  const results = scored(notes, query).slice(0, most);
  return { count: results.length, results, query };
}

function forget(params) {
  const id = text(params, "id");
  if (!isId(id)) throw new Refused(-32602, "id must be 16 digits of 0-9 and a-f");
  return { status: remove(projectOf(params), id) ? "forgotten" : "not_found", id };
}

function listTags(params) {
  const tags = [...new Set(readAll(projectOf(params)).flatMap((note) => note.tags))].sort();
  return { tags, count: tags.length };
}

export const tools = { retain, recall, forget, list_tags: listTags };

export const hooks = {
  on_session_start(params) {
    const notes = readAll(projectOf(params)).sort(newestFirst).slice(0, INJECTED);
    return notes.length ? { inject: notes.map((note) => `- ${note.content}`).join("\n") } : {};
  },
  on_session_idle: () => null,
  pre_compact: () => null,
  post_compact(params) {
    const leaving = Buffer.from(params.messages_being_compacted ?? "").subarray(-MAX_BYTES).toString();
    const content = leaving.replace(/^\uFFFD+/, ""); // where a character was cut in two
    if (content.trim()) retain({ ...params, content, tags: ["compacted"] });
    return { retain: [] };
  },
};
