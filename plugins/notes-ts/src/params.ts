// What a caller sent, read from what may be anything; and how much can be said to it.

// Bytes of a message. For a longer one the host would end the plugin.
export const LONGEST = 4_000_000;

export type Params = Readonly<Record<string, unknown>>;

export interface Refusal {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export class Refused extends Error {
  readonly error: Refusal;

  constructor(error: Refusal) {
    super(error.message);
    this.error = error;
  }
}

const wrong = (message: string): Refused => new Refused({ code: -32602, message });

export const isObject = (value: unknown): value is Params =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function text(params: Params, name: string): string {
  const value = optionalText(params, name);
  if (value === undefined) throw wrong(`missing required parameter: ${name}`);
  return value;
}

export function optionalText(params: Params, name: string): string | undefined {
  const value = params[name] ?? undefined;
  if (value !== undefined && typeof value !== "string") throw wrong(`${name} must be a text`);
  return value;
}

export function tagsOf(params: Params): string[] {
  const tags: unknown = params["tags"] ?? [];
  if (!Array.isArray(tags) || !tags.every((tag) => typeof tag === "string"))
    throw wrong("tags must be a list of texts");
  return [...new Set(tags.map((tag) => tag.trim().toLowerCase()))].sort();
}

export function atLeastOne(params: Params, name: string, otherwise: number): number {
  const value = params[name] ?? otherwise;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1)
    throw wrong(`${name} must be a positive integer`);
  return value;
}

export function idOf(params: Params, isId: (id: string) => boolean): string {
  const id = text(params, "id");
  if (!isId(id)) throw wrong("id must be 16 digits of 0-9 and a-f");
  return id;
}

export function contextOf(params: Params): { project: string; agent: string } {
  const context = isObject(params["_context"]) ? params["_context"] : {};
  return {
    project: optionalText(context, "project_id") || process.env["KAGED_PROJECT_ID"] || "unknown",
    agent: optionalText(context, "agent_path") ?? "primary",
  };
}
