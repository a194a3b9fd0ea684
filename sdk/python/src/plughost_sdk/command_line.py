"""A command line that a plugin runs for its host: what is printed is its output."""

from __future__ import annotations

import io
import sys

from plughost_sdk.handlers import log_failure
from plughost_sdk.host import to_text
from plughost_sdk.message import Error
from plughost_sdk.peer import Ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from plughost_sdk.handlers import Handler, Runner


def run(runner: Runner, handler: Handler, argv: list[str]) -> dict[str, Any]:
    """`sys.exit` and the returned number are its exit code."""
    stdout, stderr = sys.stdout, sys.stderr
    out, err = _Captured(), _Captured()
    sys.stdout, sys.stderr = out, err
    try:
        code = _exit_code(handler.name, runner.run(handler, argv))
    except SystemExit as end:
        code = _exit_code(handler.name, end.code)
    except (Ended, Error):
        raise
    except Exception:
        log_failure()
        code = 1
    finally:
        sys.stdout, sys.stderr = stdout, stderr
    return answer(out.written(), err.written(), code)


def answer(stdout: bytes, stderr: bytes, code: int) -> dict[str, Any]:
    return {"stdout": to_text(stdout), "stderr": to_text(stderr), "exit_code": code}


class _Captured(io.TextIOWrapper):
    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8", errors="surrogateescape", newline="")

    def written(self) -> bytes:
        self.flush()
        return self._bytes.getvalue()


def _exit_code(name: str, code: object) -> int:
    """As `sys.exit` takes it: a number, None for 0, or text that goes to stderr."""
    if code is None:
        return 0
    if isinstance(code, str):
        print(code, file=sys.stderr)
        return 1
    if not isinstance(code, int) or not -(2**31) <= code < 2**31:
        told = f"{name} returned {code!r:.60}"
        print(f"{told}: a command line returns its exit code, or nothing", file=sys.stderr)
        return 1
    return int(code)
