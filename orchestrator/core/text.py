"""Text for people, folded into lines."""

from __future__ import annotations

import textwrap

_NARROWEST = 60


def folded(text: str, width: int, first: str = "", rest: str = "    ") -> list[str]:
    """Return lines of at most `width` columns (60 at least); `first` and `rest` begin them."""
    return textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )


def counted(number: int, noun: str) -> str:
    """Return `1 CPU`, `2 CPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Return `48 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
