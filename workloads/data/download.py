"""Fetching a file from its public home, checked against a digest that is known beforehand."""

from __future__ import annotations

import contextlib
import hashlib
import urllib.request
from http.client import HTTPException
from pathlib import Path

from workloads.data.cache import atomic_write
from workloads.failures import DataError


def fetch(url: str, kept: Path, *, sha256: str, timeout_s: float = 30.0) -> bytes:
    """The bytes of `kept` where they have that digest, else of `url`, which are then kept there.

    Raises:
        DataError: the download failed, or has another digest.
    """
    with contextlib.suppress(OSError):
        if _digest(content := kept.read_bytes()) == sha256:
            return content
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            content = answer.read()
    except (OSError, HTTPException) as error:
        raise DataError(
            f"{url}: expected to download it; {error}: on a machine without network, set"
            f" settings.data_path to a copy of it, or put one at {kept}"
        ) from error
    if (received := _digest(content)) != sha256:
        raise DataError(
            f"{url}: expected SHA-256 {sha256}; received {len(content):,} bytes with {received}:"
            " something on the way may have answered in its place; set settings.data_path to a"
            " copy of the true file"
        )
    with contextlib.suppress(OSError), atomic_write(kept) as file:
        file.write(content)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
