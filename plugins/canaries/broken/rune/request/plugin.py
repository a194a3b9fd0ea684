"""A member that it does not know is too much for it."""

import sys

sys.path.insert(0, "../../../rune")
import plain


def execute(request):
    return strictly(**request)


def strictly(type, request_id, tool_name, context, input):
    return plain.execute({"request_id": request_id, "tool_name": tool_name, "input": input})


plain.greet()
plain.answer(execute)
