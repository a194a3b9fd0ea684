"""Durations, latencies and amounts of memory as short text."""

from __future__ import annotations


def duration_text(seconds: float | None) -> str | None:
    """A duration in its two largest units, such as 3h05m; None for None."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def latency_text(seconds: float | None) -> str | None:
    """A latency in µs, ms or s; None for None."""
    if seconds is None:
        return None
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    return f"{seconds * 1e3:.1f}ms" if seconds < 1 else f"{seconds:.1f}s"


def bytes_text(amount: int | None) -> str | None:
    """An amount of memory in MiB; None for None."""
    return None if amount is None else f"{amount / (1 << 20):.1f}M"
