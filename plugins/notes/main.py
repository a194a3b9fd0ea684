#!/usr/bin/env python3
"""A kaged plugin that remembers notes: its methods and hooks, and what they take."""

import keys
import notes

import wire
from wire import Refused

INJECTED = 5
"""Notes that a session starts with."""
INJECTED_CHARACTERS = 4000
ENVELOPE = 1000
"""Bytes of an answer around its results, and more than enough."""


def retain(params):
    content = _text(params, "content")
    context = _text(params, "context") if params.get("context") is not None else None
    number = notes.retain(_project(params), _author(params), content, context, _tags(params))
    return {"status": "stored", "id": number}


def recall(params):
    query, most = _text(params, "query"), params.get("max_results", 10)
    if type(most) is not int or not 1 <= most <= notes.MOST_RESULTS:
        raise Refused(-32602, f"max_results must be from 1 to {notes.MOST_RESULTS}")
    found = notes.recall(_project(params), query, _tags(params), most)
    results = list(_fitting(found, wire.LONGEST - ENVELOPE - len(wire.encoded(query))))
    answer = {"count": len(results), "results": results, "query": query}
    return answer if len(results) == len(found) else {**answer, "left_out": len(found) - len(results)}


def _fitting(results, room):
    """The best of them, as many as one answer has room for."""
    for result in results:
        room -= len(wire.encoded(result)) + len(", ")
        if room < 0:
            return
        yield result


def forget(params):
    number = keys.checked_id(params.get("id"))
    gone = notes.forget(_project(params), number)
    return {"status": "forgotten" if gone else "not_found", "id": number}


def list_tags(params):
    tags = notes.list_tags(_project(params))
    return {"tags": tags, "count": len(tags)}


def on_session_start(params):
    """The notes that fit what the session begins with; when nothing is said, the newest."""
    said = " ".join(value for key, value in sorted(params.items()) if isinstance(value, str))
    project = _project(params)
    found = notes.recall(project, said, most=INJECTED) or notes.recall(project, "", most=INJECTED)
    lines = [f"- {note['content']}" for note in found]
    return {"inject": "\n".join(["Notes from before:", *lines])[:INJECTED_CHARACTERS]} if lines else {}


def post_compact(params):
    """What leaves the conversation stays as a note: its end, when it is longer than a note may be."""
    leaving = params.get("messages_being_compacted")
    if isinstance(leaving, str) and leaving.strip():
        kept = leaving.encode("utf-8", "replace")[-notes.MAX_BYTES :].decode(errors="ignore")
        notes.retain(_project(params), _author(params), kept, "left the conversation", ["compacted"])
    return {"retain": []}


def _text(params, name):
    if not isinstance(value := params.get(name), str):
        raise Refused(-32602, f"{name} is required, as a text")
    return value


def _tags(params):
    tags = params.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Refused(-32602, "tags must be a list of texts")
    return tags


def _context(params, name, otherwise):
    context = params.get("_context")
    value = context.get(name) if isinstance(context, dict) else None
    return value if isinstance(value, str) and value else otherwise


def _project(params):
    return _context(params, "project_id", "unknown")


def _author(params):
    return _context(params, "agent_path", "primary")


METHODS = {
    "notes.retain": retain,
    "notes.recall": recall,
    "notes.forget": forget,
    "notes.list_tags": list_tags,
}
HOOKS = {"kaged.hook.on_session_start": on_session_start, "kaged.hook.post_compact": post_compact}
ABOUT = {
    "name": "notes",
    "version": "1.0.0",
    "methods": list(METHODS),
    "notifications": [],
    "capabilities_used": ["kaged:storage:read", "kaged:storage:write"],
}

if __name__ == "__main__":
    wire.serve(ABOUT, METHODS | HOOKS)
