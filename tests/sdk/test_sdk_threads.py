"""The host may be called from anywhere: from events, coroutines, and threads that a handler waits for."""

from __future__ import annotations

import subprocess
import threading

import pytest

from plughost.testing import drive
from plughost_sdk import ainb
from tests.support.sdk import INIT, ainb_folder, frames, unframed


@pytest.fixture
def place(tmp_path):
    return ainb_folder(tmp_path, "")


@pytest.fixture
def plugin(place):
    return ainb.Plugin(str(place / "manifest.toml"))


ANSWERS = {"host/snapshot/get": lambda params: {"payload": None, "version": int(params["topic"])}}


def version(plugin, number):
    return plugin.host.snapshot.get(str(number))[1]


def test_a_handler_may_wait_for_threads_that_call_the_host(place, plugin):
    @plugin.method("many")
    def many(params):
        found = []
        threads = [threading.Thread(target=lambda n=n: found.append(version(plugin, n))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    with drive(plugin, place, answers=ANSWERS) as host:
        assert host.call("many", {}) == [*range(20)]
        assert host.call("many", {}) == [*range(20)]


def test_a_coroutine_may_await_threads_that_call_the_host(place, plugin):
    @plugin.method("later")
    async def later(params):
        import asyncio

        return await asyncio.gather(*(asyncio.to_thread(version, plugin, number) for number in range(10)))

    @plugin.method("now")
    async def now(params):
        return version(plugin, 7)

    with drive(plugin, place, answers=ANSWERS) as host:
        assert host.call("later", {}) == [*range(10)]
        assert host.call("now", {}) == 7


def test_what_comes_while_a_thread_reads_is_handled_in_its_order(place, plugin):
    """A thread of its own asks the host all the time; events and requests come in between."""
    seen, asked, enough = [], [], threading.Event()

    def ask():
        while not enough.is_set():
            asked.append(version(plugin, 1))

    thread = threading.Thread(target=ask)
    plugin.on_init(thread.start)
    plugin.on("t")(lambda payload: seen.append(int(payload)))

    @plugin.method("seen")
    def tell(params):
        version(plugin, 2)
        return [*seen]

    with drive(plugin, place, answers=ANSWERS) as host:
        for number in range(200):
            host.event("t", str(number).encode())
            if number % 50 == 0:
                assert host.call("seen", {}) == [*range(number + 1)]
        while len(asked) < 100:
            host.call("seen", {})
        enough.set()
        while thread.is_alive():
            host.call("seen", {})
    assert seen == [*range(200)]


THREADED = """
import threading
from plughost_sdk import ainb
plugin = ainb.Plugin()
def ask():
    try:
        plugin.host.snapshot.get("never answered")
    except ainb.Ended as end:
        print(end, file=sys.stderr)
@plugin.on_init
def start():
    for _ in range(3):
        threading.Thread(target=ask).start()
plugin.run()
"""


@pytest.mark.parametrize("farewell", [[], [{"id": 2, "method": "plugin/shutdown", "params": {}}]])
def test_threads_that_wait_are_told_when_the_host_has_gone(tmp_path, farewell):
    place = ainb_folder(tmp_path, THREADED)
    ran = subprocess.run([place / "made"], input=frames(INIT, *farewell), capture_output=True, timeout=20)
    assert ran.returncode == 0
    assert ran.stderr.decode().splitlines() == ["the host has closed the connection"] * 3
    answers = [message["id"] for message in unframed(ran.stdout) if "result" in message]
    assert answers == ([1, 2] if farewell else [1])


def test_answers_that_nobody_waits_for_are_dropped(tmp_path):
    place = ainb_folder(tmp_path, "from plughost_sdk import ainb\nainb.Plugin().run()\n")
    strange = [{"id": number, "result": {}} for number in (1, "1", None, [1], True, 2**70)]
    stream = frames(*strange) + b"Content-Length: 2\r\n\r\n[]" + b"Content-Length: 1\r\n\r\n{" + frames(INIT)
    ran = subprocess.run([place / "made"], input=stream, capture_output=True, timeout=20)
    (answer,) = unframed(ran.stdout)
    assert (answer["id"], ran.returncode, ran.stderr) == (1, 0, b"")


@pytest.mark.parametrize("error", ["no", [], {"code": "x"}, {}])
def test_an_error_of_the_host_that_is_none_is_an_error(tmp_path, error):
    source = """
    from plughost_sdk import ainb
    plugin = ainb.Plugin()
    @plugin.method
    def get(params):
        plugin.host.snapshot.get("t")
    plugin.run()
    """
    asked = [{"id": 2, "method": "get", "params": {}}, {"id": 1, "error": error}]
    place = ainb_folder(tmp_path, source)
    ran = subprocess.run([place / "made"], input=frames(*asked), capture_output=True, timeout=20)
    _, answer = unframed(ran.stdout)
    assert answer["error"] == {
        "code": -32603,
        "message": f"the host's answer has an invalid error: {error!r}",
    }
