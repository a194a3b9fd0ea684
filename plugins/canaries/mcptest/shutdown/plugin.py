"""It answers from a thread, and at the end waits for what is still to be answered."""

import queue
import sys
import threading

sys.path.insert(0, "..")
import plain

waiting = queue.SimpleQueue()


def work():
    while (line := waiting.get()) is not None:
        plain.send(plain.answer(line))


worker = threading.Thread(target=work)
worker.start()
for line in sys.stdin.buffer:
    waiting.put(line)
waiting.put(None)
worker.join()
