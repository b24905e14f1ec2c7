"""Text for people, folded into lines."""

from __future__ import annotations

import textwrap

_NARROWEST = 60


def folded(text: str, width: int, first: str = "", rest: str = "    ") -> list[str]:
    """Lines of at most `width` columns (60 at least); `first` and `rest` begin them."""
    return textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
