"""`python -m benchmarks.fresh.bare_fan_out SUBSCRIBERS COUNT SIZE`: the same plugins and bytes, no host.

Every frame is ready before the clock starts. What is published is not looked at, its bytes are counted.
"""

from __future__ import annotations

import json
import os
import sys
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import perf_counter, process_time
from typing import Any

from benchmarks.bus import TOPIC, astray, in_base64, publishing
from benchmarks.contenders.child import Child
from benchmarks.paths import C_AINB

CHUNK = 65536
PATIENCE = 60.0


def framed(**message: Any) -> bytes:
    body = json.dumps({**message, "jsonrpc": "2.0"}, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def event(number: int, size: int) -> bytes:
    return framed(method="plugin/handle_event", params={"topic": TOPIC, "payload": in_base64(number, size)})


def first_frame(data: bytes) -> int:
    """How long it is."""
    header, blank, _ = data.partition(b"\r\n\r\n")
    return len(header + blank) + int(header.partition(b":")[2])


class Subscriber(Child):
    def __init__(self) -> None:
        super().__init__(C_AINB)
        os.set_blocking(self.stdin, False)
        self.sent = 0
        self.waits = False
        """For room in its pipe."""
        self.answer = b""

    @property
    def heard(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.answer.partition(b"\r\n\r\n")[2])["result"]
        return result


def hand_on(
    publisher: Child, subscribers: list[Subscriber], ready: memoryview, count: int, size: int
) -> None:
    """For each of `count` publishes `size` ready bytes, then the rest; until all have answered."""
    selector = DefaultSelector()
    selector.register(publisher.stdout, EVENT_READ)
    for subscriber in subscribers:
        selector.register(subscriber.stdout, EVENT_READ, subscriber)
    came = publish = due = 0
    unanswered = len(subscribers)

    def send(to: Subscriber) -> None:
        try:
            to.sent += os.write(to.stdin, ready[to.sent : due])
        except BlockingIOError:
            pass
        if to.waits and to.sent == due:
            selector.unregister(to.stdin)
        elif not to.waits and to.sent < due:
            selector.register(to.stdin, EVENT_WRITE, to)
        to.waits = to.sent < due

    while unanswered:
        happened = selector.select(PATIENCE)
        if not happened:
            sys.exit(f"nothing has happened for {PATIENCE:g} s")
        for key, _ in happened:
            if key.fd == publisher.stdout:
                data = os.read(key.fd, CHUNK)
                if not data:
                    sys.exit("the publisher has ended")
                publish = publish or first_frame(data)  # the others are as long
                came += len(data)
                due = len(ready) if came >= count * publish else came // publish * size
                for subscriber in subscribers:
                    if not subscriber.waits:
                        send(subscriber)
            elif key.fd == key.data.stdin:
                send(key.data)
            else:
                key.data.answer = os.read(key.fd, CHUNK)
                selector.unregister(key.fd)
                unanswered -= 1


def main(listeners: int, count: int, size: int) -> None:
    events = [event(number, size) for number in range(1, count + 1)]
    ready = memoryview(b"".join(events) + framed(id=1, method="heard"))
    publisher = Child(C_AINB)
    subscribers = [Subscriber() for _ in range(listeners)]
    began, spent = perf_counter(), process_time()
    os.write(publisher.stdin, framed(id=1, method="publish", params=publishing(count, size)))
    hand_on(publisher, subscribers, ready, count, len(events[0]))
    seconds, cpu = perf_counter() - began, process_time() - spent
    for child in (publisher, *subscribers):
        child.close()
    heard = [subscriber.heard for subscriber in subscribers]
    print(json.dumps({"seconds": seconds, "cpu": cpu, "astray": astray(heard, count)}))


main(*map(int, sys.argv[1:]))
