"""It exposes more than one tool, and the code of its errors is empty."""

import sys

sys.path.insert(0, "..")
import plain


def execute(request):
    response = plain.execute(request)
    return {**response, "error": {**response["error"], "code": ""}} if "error" in response else response


plain.greet(exposed_tools=["Echo", "echo"])
plain.answer(execute)
