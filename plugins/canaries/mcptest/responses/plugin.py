"""`"error": null` beside a result is no error, unknown members do no harm, and logs go to stderr."""

import sys

sys.path.insert(0, "..")
import plain


def answer(line):
    print("asked:", line, file=sys.stderr)
    return {"served by": "a canary", "error": None, **plain.answer(line)}


plain.serve(answer)
