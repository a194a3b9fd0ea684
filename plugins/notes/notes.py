"""Notes of a project: kept, found again, forgotten."""

import secrets
import time
from datetime import UTC, datetime

import keys
import ranking
import storage

from wire import Refused

MAX_BYTES = 102_400
"""Of a note's content."""
MOST_TAGS = 32
MOST_RESULTS = 100


def retain(project, author, content, context=None, tags=()):
    """Keep it; its id. When this returns, the host has it on its disk."""
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        told = {"code": "content_too_large", "actual_bytes": size, "max_bytes": MAX_BYTES}
        raise Refused(-32000, f"a note of {size} bytes is over the limit of {MAX_BYTES}", told)
    number = secrets.token_hex(8)
    now = time.time()
    note = {
        "created_at": datetime.fromtimestamp(now, UTC).isoformat(),
        "time": now,
        "agent_path": author,
        "tags": sorted({tag.strip().lower() for tag in tags}),
        "context": context,
        "content": content,
    }
    if len(note["tags"]) > MOST_TAGS:
        raise Refused(-32602, f"a note has at most {MOST_TAGS} tags")
    index = [keys.tag(project, tag, number) for tag in note["tags"]]  # all are checked before any is written
    for key in index:
        storage.put(key, True)
    storage.put(keys.note(project, number), note)
    return number


def recall(project, query, tags=(), most=10):
    """The notes that fit best; with `tags`, of those that have all of them."""
    candidates = dict(storage.get_all(_candidates(project, tags)))
    texts = [(key, _text(note), note["time"]) for key, note in candidates.items()]
    best = ranking.ranked(query, texts, time.time())[:most]
    return [_shown(keys.id_of(key), candidates[key], score) for score, key in best]


def forget(project, number):
    """Whether it was there."""
    key = keys.note(project, number)
    note = storage.get(key)
    gone = storage.delete(key)
    for tag in note["tags"] if note else ():
        storage.delete(keys.tag(project, tag, number))
    return gone


def list_tags(project):
    """Of notes that are there: what leads nowhere since a crash does not count."""
    there = {keys.id_of(key) for key in storage.keys(keys.notes(project))}
    return sorted({keys.tag_of(key) for key in storage.keys(keys.tags(project)) if keys.id_of(key) in there})


def _candidates(project, tags):
    if not tags:
        return storage.keys(keys.notes(project))
    of_each = [
        {keys.id_of(key) for key in storage.keys(keys.tagged(project, tag.strip().lower()))} for tag in tags
    ]
    return [keys.note(project, number) for number in sorted(set.intersection(*of_each))]


def _text(note):
    return " ".join([note["content"], note["context"] or "", *note["tags"]])


def _shown(number, note, score):
    fields = ("created_at", "agent_path", "tags", "context", "content")
    return {"id": number, **{field: note[field] for field in fields}, "score": round(score, 6)}
