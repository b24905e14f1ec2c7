import os
import stat
from pathlib import Path

import numpy as np
import pytest

from workloads.data import cache
from workloads.data.cache import Arrays, atomic_write, cache_folder, load_or_make


class Maker:
    def __init__(self, **arrays: list[int]) -> None:
        self.arrays: Arrays = {name: np.array(values) for name, values in arrays.items()}
        self.made = 0

    def __call__(self) -> Arrays:
        self.made += 1
        return self.arrays


def test_arrays_are_made_once_for_a_key() -> None:
    make = Maker(a=[1, 2], b=[3])
    for _ in range(3):
        arrays = load_or_make("letters", {"text": "x", "size": 3}, ("a", "b"), make)
        assert {name: array.tolist() for name, array in arrays.items()} == {"a": [1, 2], "b": [3]}
    assert make.made == 1
    load_or_make("letters", {"text": "x", "size": 4}, ("a", "b"), make)
    assert make.made == 2


def test_large_arrays_are_memory_mapped_and_cannot_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", 1000)
    make = Maker(small=[1], large=list(range(1000)))
    for _ in range(2):  # made, then loaded
        arrays = load_or_make("mixed", {}, ("small", "large"), make)
        assert isinstance(arrays["large"], np.memmap)
        assert not isinstance(arrays["small"], np.memmap)
        assert not arrays["large"].flags.writeable
    assert arrays["large"].tolist() == list(range(1000))


@pytest.mark.parametrize(("kept_bytes", "mapped_bytes"), [(None, 0), (15, 10**9), (-100, 0)])
def test_a_damaged_or_missing_array_is_made_again(
    folder: Path, kept_bytes: int | None, mapped_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", mapped_bytes)
    make = Maker(a=list(range(1000)), b=[1])
    load_or_make("letters", {}, ("a", "b"), make)
    [path] = folder.glob("letters-*/a.npy")
    if kept_bytes is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept_bytes])
    for _ in range(2):
        assert load_or_make("letters", {}, ("a", "b"), make)["a"].tolist() == list(range(1000))
    assert make.made == 2


def test_arrays_are_made_if_the_cache_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    make = Maker(a=[1])
    assert load_or_make("letters", {}, ("a",), make)["a"].tolist() == [1]
    assert make.made == 1


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path, umask: int, mode: int) -> None:
    path, before = tmp_path / "new" / "file", os.umask(umask)
    try:
        with pytest.raises(RuntimeError, match="half way"), atomic_write(path) as file:
            file.write(b"half")
            raise RuntimeError("half way")
        assert list(path.parent.iterdir()) == []
        with atomic_write(path) as file:
            file.write(b"whole")
            assert not path.exists()
    finally:
        os.umask(before)
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == mode, "users may share a cache"


def test_the_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RNNSWEEP_CACHE", raising=False)
    for base in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert cache_folder() == tmp_path / ".cache" / "rnnsweep"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/rnnsweep")
    monkeypatch.setenv("RNNSWEEP_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
