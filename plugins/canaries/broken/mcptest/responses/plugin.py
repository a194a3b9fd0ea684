"""A print that was meant for the author goes to the wire."""

import sys

sys.path.insert(0, "../../../mcptest")
import plain


def send(message):
    plain.send(message)
    if "result" in message:
        print("served:", message["result"], flush=True)


plain.serve(send=send)
