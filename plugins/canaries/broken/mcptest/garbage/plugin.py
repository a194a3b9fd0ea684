"""A line that is no JSON is its end."""

import json
import sys

sys.path.insert(0, "../../../mcptest")
import plain


def answer(line):
    json.loads(line)
    return plain.answer(line)


plain.serve(answer)
