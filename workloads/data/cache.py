"""Files kept between trials: downloads, and arrays that take long to make.

The cache is a convenience: where it cannot be written, trials go on without it, and it may be
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
    """`RNNSWEEP_CACHE`, else `rnnsweep` in `XDG_CACHE_HOME`, else in `~/.cache`; absolute."""
    if own := os.environ.get("RNNSWEEP_CACHE"):
        return Path(own).expanduser().resolve()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # as the XDG specification wants relative ones treated
        base = Path.home() / ".cache"
    return base / "rnnsweep"


def load_or_make(
    kind: str,
    key: Key,
    names: tuple[str, ...],
    make: Callable[[], Arrays],
) -> Arrays:
    """The arrays of these names, from the cache or else made now and kept there.

    Several trainers may make the same arrays at once: each file appears whole or not at all, and
    those of one key are equal, whoever wrote them.

    Args:
        kind: begins the folder's name, for people who look into the cache.
        key: all that decides the arrays, the version of the code that makes them included.
        names: of the arrays.
        make: makes them where the cache lacks one, or holds one that cannot be read.
    """
    folder = cache_folder() / f"{kind}-{_short_digest(key)}"
    if (found := _opened(folder, names)) is not None:
        return found
    made = make()
    try:
        for name in names:
            with atomic_write(folder / f"{name}.npy") as file:
                np.save(file, made[name], allow_pickle=False)
    except OSError:  # a full disk, or a home that is read-only
        return made
    return _opened(folder, names) or made


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which becomes `path` when the block ends, and vanishes if it raises.

    Others may read it as far as the umask lets them: users may share a cache.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with temporary.open("xb") as file:  # not mkstemp, whose files are for their owner only
        try:
            yield file
            file.close()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _opened(folder: Path, names: tuple[str, ...]) -> Arrays | None:
    try:
        return {name: _open(folder / f"{name}.npy") for name in names}
    except (OSError, ValueError, EOFError):  # missing, or cut short
        return None


def _open(path: Path) -> NDArray[Any]:
    mapped = path.stat().st_size > MAPPED_BYTES
    array: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    return array


def _short_digest(key: Key) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


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
