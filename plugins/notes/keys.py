"""The keys in the host's storage.

`note:PROJECT:ID` holds a note, which is there if and only if this key is. `tag:PROJECT:TAG:ID` leads to the
notes of a tag: written before its note and deleted after it, so that a crash in between leaves an entry that
leads nowhere, but never a note that its tags do not find.
"""

import re
from urllib.parse import quote, unquote

from wire import Refused

LONGEST_PROJECT = 512
LONGEST_TAG = 256
"""Bytes when spelled; with an id they stay within the 1024 of a key."""
_ID = re.compile(r"[0-9a-f]{16}")


def note(project, number):
    return f"{notes(project)}{number}"


def notes(project):
    """The prefix of all notes of a project."""
    return f"note:{_spelled(project, LONGEST_PROJECT, 'the project id')}:"


def tag(project, word, number):
    return f"{tagged(project, word)}{number}"


def tagged(project, word):
    """The prefix of what leads to the notes of a tag."""
    return f"{tags(project)}{_spelled(word, LONGEST_TAG, 'a tag')}:"


def tags(project):
    return f"tag:{_spelled(project, LONGEST_PROJECT, 'the project id')}:"


def id_of(key):
    return key.rpartition(":")[2]


def tag_of(key):
    return unquote(key.split(":")[2])


def checked_id(value):
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Refused(-32602, "id must be 16 digits of 0-9 and a-f")
    return value


def _spelled(text, longest, what):
    """Without colons, so that no name reaches into another's keys."""
    try:
        spelled = quote(text, safe="")
    except UnicodeEncodeError:
        raise Refused(-32602, f"{what} must be Unicode text") from None
    if not 1 <= len(spelled) <= longest:
        raise Refused(-32602, f"{what} must have 1 to {longest} bytes when percent-encoded")
    return spelled
