"""`null` equals absent for every member that it may leave out."""

import sys

sys.path.insert(0, "..")
import plain


def execute(request):
    return {"error": None, "metadata": None, **plain.execute(request), "output": None}


plain.greet(capabilities=None)
plain.answer(execute)
