"""Files that are kept between trials: downloads, and arrays that take long to make.

The cache is a convenience: if it cannot be written, trials continue without it, and it may be
removed at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.failures import DataError

Arrays: TypeAlias = dict[str, NDArray[Any]]
Key: TypeAlias = dict[str, str | int | None]

MAPPED_BYTES = 16 * 2**20
"""An array whose file is larger is memory-mapped, read-only, instead of read."""


def cache_folder() -> Path:
    """Return the path: `RNNSWEEP_CACHE`, else `rnnsweep` in `XDG_CACHE_HOME` or in `~/.cache`."""
    if override := os.environ.get("RNNSWEEP_CACHE"):
        return Path(override).expanduser().resolve()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification ignores relative paths
        base = Path.home() / ".cache"
    return base / "rnnsweep"


def load_or_make(
    kind: str,
    key: Key,
    names: tuple[str, ...],
    make: Callable[[], Arrays],
) -> Arrays:
    """Load arrays from the cache, or make them and write them there.

    Several trainers may make the same arrays at once: every file is written atomically, and files
    of one key are equal.

    Args:
        kind: prefix of the folder's name, for people who look into the cache.
        key: everything that decides the arrays, including the version of the code that makes them.
        names: names of the arrays.
        make: makes the arrays if one is missing in the cache or unreadable.
    """
    folder = cache_folder() / f"{kind}-{_short_digest(key)}"
    if (stored := _load(folder, names)) is not None:
        return stored
    arrays = make()
    try:
        for name in names:
            with atomic_write(folder / f"{name}.npy") as file:
                np.save(file, arrays[name], allow_pickle=False)
    except OSError:  # a full disk, or a home that is read-only
        return arrays
    return _load(folder, names) or arrays


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that becomes `path` at the end of the block, and vanishes on an error.

    Its permissions follow the umask, because users may share a cache.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with temporary.open("xb") as file:  # mkstemp's files are readable by their owner only
        try:
            yield file
            file.close()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _load(folder: Path, names: tuple[str, ...]) -> Arrays | None:
    try:
        return {name: _load_array(folder / f"{name}.npy") for name in names}
    except (OSError, ValueError, EOFError):  # missing, or cut short
        return None


def _load_array(path: Path) -> NDArray[Any]:
    is_large = path.stat().st_size > MAPPED_BYTES
    array: NDArray[Any] = np.load(path, mmap_mode="r" if is_large else None, allow_pickle=False)
    return array


def _short_digest(key: Key) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


def fetch(url: str, stored: Path, *, sha256: str, timeout_s: float = 30.0) -> bytes:
    """Return the bytes of a file that is downloaded once.

    Args:
        url: address of the download.
        stored: local copy, used if it has the digest, and written after a download.
        sha256: digest of the file, hexadecimal.
        timeout_s: timeout of the connection, in seconds.

    Raises:
        DataError: the download failed, or has another digest.
    """
    with contextlib.suppress(OSError):
        if _digest(content := stored.read_bytes()) == sha256:
            return content
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            content = answer.read()
    except (OSError, HTTPException) as error:
        raise DataError(
            f"{url}: expected to download it; {error}: on a machine without network, set"
            f" settings.data_path to a copy of it, or put one at {stored}"
        ) from error
    if (received := _digest(content)) != sha256:
        raise DataError(
            f"{url}: expected SHA-256 {sha256}; received {len(content):,} bytes with {received}:"
            " a proxy may have answered instead; set settings.data_path to a copy of the original"
            " file"
        )
    with contextlib.suppress(OSError), atomic_write(stored) as file:
        file.write(content)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
