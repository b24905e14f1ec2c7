"""How another's error is quoted."""

from __future__ import annotations

import pytest

from orchestrator.core.errors import last_line, one_line

TRACE = "ray::probe()\n  Traceback (most recent call last):\n\n    main()\nKeyError: 'a'\n"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (TRACE, "KeyError: 'a'"),
        ("  one line  ", "one line"),
        ("Request failed:\nNo module named 'ray'\n.\n", "No module named 'ray'"),
        (r"expected 'a\nb'", r"expected 'a\nb'"),
        ("", "OSError"),
        (" \n\n", "OSError"),
        ("...", "OSError"),
    ],
)
def test_the_last_line_is_the_last_with_a_word(text: str, last: str) -> None:
    assert last_line(OSError(text)) == last


def test_a_servers_written_out_line_breaks_count_where_asked() -> None:
    answer = RuntimeError(r'{"msg": "Traceback\n  main()\nKeyError: 1\n"}')
    assert last_line(answer, escaped=True) == "KeyError: 1"


def test_all_lines_become_one() -> None:
    error = RuntimeError("Version mismatch:\n    Ray: 2.60.0\n\n    Python: 3.12.4\n")
    assert one_line(error) == "Version mismatch: Ray: 2.60.0 Python: 3.12.4"
    assert one_line(error, between="; ") == "Version mismatch:; Ray: 2.60.0; Python: 3.12.4"
    assert one_line(TimeoutError()) == "TimeoutError"
