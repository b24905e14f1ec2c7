"""The prose of Python's documentation in every Python installation: `pydoc_data.topics`."""

from __future__ import annotations

import re

from workloads.failures import DataError

_BLANK_LINES = re.compile(r"\n\s*\n")


def python_docs() -> dict[str, list[str]]:
    """Return the paragraphs by topic, topics in alphabetical order.

    Many topics repeat others (`compound` contains all of `if`, `while` and `with`). A paragraph
    appears only where it occurs first, so that the validation text is never trained on.

    Raises:
        DataError: this Python was installed without its documentation's topics.
    """
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 - some distributions leave it out
    except ImportError as error:
        raise DataError(
            "dataset python-docs: expected pydoc_data.topics, which is part of Python's standard"
            f" library; {error}: install your distribution's complete Python, or choose another"
            " dataset"
        ) from error
    known_paragraphs: set[str] = set()
    prose: dict[str, list[str]] = {}
    for topic in sorted(topics):
        new_paragraphs = prose.setdefault(topic, [])
        for paragraph in _BLANK_LINES.split(topics[topic].strip("\n")):
            words = " ".join(paragraph.split())
            if words and words not in known_paragraphs:
                known_paragraphs.add(words)
                new_paragraphs.append(paragraph)
    return prose


def python_docs_text() -> str:
    """Return all paragraphs as one text, separated by blank lines."""
    return "\n\n".join(
        paragraph for paragraphs in python_docs().values() for paragraph in paragraphs
    )
