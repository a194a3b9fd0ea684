"""The host's storage, as the notes need it."""

from wire import ask, ask_all

PAGE = 1000


def put(key, value):
    ask("kaged.storage.set", {"key": key, "value": value})


def get(key):
    return ask("kaged.storage.get", {"key": key})["value"]


def get_all(keys):
    """Key and value of those that are there."""
    for key, found in zip(keys, ask_all("kaged.storage.get", ({"key": key} for key in keys)), strict=True):
        if found["found"]:
            yield key, found["value"]


def delete(key):
    """Whether it was there."""
    return ask("kaged.storage.delete", {"key": key})["deleted"]


def keys(prefix):
    """All that start so, in order."""
    found, more = [], True
    while more:
        after = found[-1] if found else ""
        page = ask("kaged.storage.list", {"prefix": prefix, "after": after, "limit": PAGE})
        found += page["keys"]
        more = page["more"] and page["keys"]
    return found
