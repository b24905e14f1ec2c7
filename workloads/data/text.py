"""Real texts: Python's documentation, Shakespeare, or any UTF-8 file."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from workloads.data.cache import cache_folder, fetch
from workloads.data.prose import python_docs_text
from workloads.data.sources import (
    SHAKESPEARE_SHA256,
    SHAKESPEARE_URL,
    TextSource,
    text_digest,
)
from workloads.failures import DataError


@dataclass(frozen=True, slots=True)
class Text:
    """A text with its source; `digest` is the SHA-256 of its UTF-8 bytes."""

    name: TextSource
    digest: str
    source: str
    text: str


def load_text(
    name: TextSource, data_path: str | None = None, *, url: str = SHAKESPEARE_URL
) -> Text:
    """Read a text; `shakespeare` without a path is downloaded from `url` once, and cached.

    Line ends are those of the file.

    Raises:
        DataError: the text is missing, cannot be downloaded, is empty, is not UTF-8, or is not the
            text of that name.
    """
    text_digest(name, data_path)  # refuses an unreadable file, or one that is not of that name
    if data_path is not None:
        content = Path(data_path).read_bytes()
    elif name == "shakespeare":
        content = fetch(url, cache_folder() / "shakespeare.txt", sha256=SHAKESPEARE_SHA256)
    else:
        content = python_docs_text().encode()
    source = text_source(name, data_path)
    return Text(name, hashlib.sha256(content).hexdigest(), source, _decode(content, source))


def text_source(name: TextSource, data_path: str | None = None) -> str:
    """Return the origin of a text, for people to read."""
    if data_path is not None:
        return data_path
    if name == "shakespeare":
        return SHAKESPEARE_URL
    return f"pydoc_data.topics of Python {platform.python_version()}"


def _decode(content: bytes, source: str) -> str:
    if not content:
        raise DataError(f"data file {source!r}: expected a text; received an empty file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"data file {source!r}: expected UTF-8; received byte 0x{content[error.start]:02x} at"
            f" offset {error.start:,} ({error.reason}): convert it, such as with"
            " iconv -f ISO-8859-1 -t UTF-8"
        ) from error
