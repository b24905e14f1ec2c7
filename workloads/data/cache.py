"""Files that are kept between trials in a removable cache; without it, trials continue."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

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
    kind: str, key: Mapping[str, object], names: tuple[str, ...], make: Callable[[], Arrays]
) -> Arrays:
    """Load arrays from the cache, or make them and write them there, each file atomically.

    `kind` begins the folder's name. `key` is everything that decides the arrays, including the
    version of the code of `make`, which makes all `names`.
    """
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    paths = {name: cache_folder() / f"{kind}-{digest[:24]}" / f"{name}.npy" for name in names}
    unreadable = (OSError, ValueError, EOFError)  # missing, or cut short
    with contextlib.suppress(*unreadable):
        return {name: _load_array(path) for name, path in paths.items()}
    arrays = make()
    with contextlib.suppress(*unreadable):  # a full disk, or a home that is read-only
        for name, path in paths.items():
            with atomic_write(path) as file:
                np.save(file, arrays[name], allow_pickle=False)
        return {name: _load_array(path) for name, path in paths.items()}
    return arrays


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that becomes `path` at the end of the block, and vanishes on an error."""
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


def _load_array(path: Path) -> NDArray[Any]:
    is_large = path.stat().st_size > MAPPED_BYTES
    array: NDArray[Any] = np.load(path, mmap_mode="r" if is_large else None, allow_pickle=False)
    return array
