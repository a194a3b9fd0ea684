"""It spells an id otherwise than it came, with other escapes: the same id all the same."""

import json
import sys

sys.path.insert(0, "..")
import plain


def escaped(text):
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return '"' + "".join(f"\\u{unit:04x}" for unit in units) + '"'


def send(message):
    number = message.pop("id")
    spelled = escaped(number) if isinstance(number, str) else json.dumps(number)
    print('{"id": ' + spelled + ", " + json.dumps(message)[1:], flush=True)


plain.serve(send=send)
