"""Numbers, lists and times as text for people, with the grammar that they need."""

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """Return `1 CPU`, `2 CPUs`."""
    return f"{number} {noun_for(number, noun)}"


def noun_for(number: int, noun: str) -> str:
    """Return the noun after such a number: `CPU` or `CPUs`."""
    return noun if number == 1 else f"{noun}s"


def is_or_are(number: int) -> str:
    """Return the verb that agrees with this number of things."""
    return "is" if number == 1 else "are"


def joined(parts: Iterable[str]) -> str:
    """Return `a, b and c`; nothing for no part."""
    listed = list(parts)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def duration(seconds: float) -> str:
    """Return `48 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
