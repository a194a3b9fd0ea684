"""Numbers of seconds that a caller gives: timeouts, grace periods, delays."""

from __future__ import annotations

from typing import Any

from plughost._util.text import truncate
from plughost.errors import InvalidSpec


def check_seconds(name: str, seconds: Any) -> None:
    """Refuse with InvalidSpec anything but a number from 0 on. `math.inf` is allowed: it is no time limit.

    NaN must never reach a clock: it is neither before nor after any other time, so that a timer or a queue
    with one NaN in it is out of order for all its other entries, too.
    """
    try:
        if seconds + 0.0 >= 0.0:
            return
    except (TypeError, OverflowError):
        pass
    raise InvalidSpec(f"{name} is {truncate(seconds)}; expected a number of seconds, 0 or more")
