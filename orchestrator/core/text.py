"""Numbers and times as text for people, and texts from templates."""

from pathlib import Path
from typing import Any


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


def rendered(template: Path, **values: Any) -> str:
    """Return the text of a Jinja template; blocks on lines of their own leave no lines."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  (50 ms)

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"counted": counted, "duration": duration}
    return environment.from_string(template.read_text(encoding="utf-8")).render(values).rstrip()
