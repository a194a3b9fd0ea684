"""It is fine with a tool that it does not have."""

import sys

sys.path.insert(0, "../../../rune")
import plain


def execute(request):
    response = plain.execute(request)
    response.pop("error", None)
    return {**response, "status": "ok"}


plain.greet()
plain.answer(execute)
