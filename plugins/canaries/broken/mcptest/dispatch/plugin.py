"""It answers a method that it does not know as if something had broken."""

import sys

sys.path.insert(0, "../../../mcptest")
import plain


def answer(line):
    answered = plain.answer(line)
    if answered.get("error", {}).get("code") == -32601:
        answered["error"]["code"] = -32603
    return answered


plain.serve(answer)
