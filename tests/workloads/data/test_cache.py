from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workloads.data import cache
from workloads.data.cache import Arrays, atomic_write, cache_folder, load_or_make


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """A maker of arrays that counts its calls."""

    def __init__(self, **arrays: list[int]) -> None:
        self.arrays: Arrays = {name: np.array(values) for name, values in arrays.items()}
        self.made = 0

    def __call__(self) -> Arrays:
        self.made += 1
        return self.arrays


@pytest.mark.usefixtures("folder")
def test_arrays_are_made_once_for_a_key() -> None:
    make = Maker(a=[1, 2], b=[3])
    for _ in range(3):
        arrays = load_or_make("letters", {"text": "x", "size": 3}, ("a", "b"), make)
        assert arrays["a"].tolist() == [1, 2]
        assert arrays["b"].tolist() == [3]
    assert make.made == 1
    load_or_make("letters", {"text": "x", "size": 4}, ("a", "b"), make)
    assert make.made == 2


def test_large_arrays_are_memory_mapped_and_cannot_be_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", 1000)
    make = Maker(small=[1], large=list(range(1000)))
    for _ in range(2):  # made, then loaded
        arrays = load_or_make("mixed", {}, ("small", "large"), make)
        assert isinstance(arrays["large"], np.memmap)
        assert not isinstance(arrays["small"], np.memmap)
        assert not arrays["large"].flags.writeable
    assert arrays["large"].tolist() == list(range(1000))


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY\x01\x00 no header", None])
@pytest.mark.parametrize("mapped_bytes", [0, 10**9])
def test_a_damaged_or_missing_array_is_made_again(
    folder: Path, damage: bytes | None, mapped_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", mapped_bytes)
    make = Maker(a=list(range(100)), b=[1])
    load_or_make("letters", {}, ("a", "b"), make)
    [path] = folder.glob("letters-*/a.npy")
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert load_or_make("letters", {}, ("a", "b"), make)["a"].tolist() == list(range(100))
    assert make.made == 2
    load_or_make("letters", {}, ("a", "b"), make)
    assert make.made == 2


@pytest.mark.parametrize("mapped_bytes", [0, 10**9])
def test_an_array_that_was_cut_short_is_made_again(
    folder: Path, mapped_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAPPED_BYTES", mapped_bytes)
    make = Maker(a=list(range(1000)))
    load_or_make("letters", {}, ("a",), make)
    [path] = folder.glob("letters-*/a.npy")
    path.write_bytes(path.read_bytes()[:-100])
    assert load_or_make("letters", {}, ("a",), make)["a"].tolist() == list(range(1000))
    assert make.made == 2


def test_arrays_are_made_if_the_cache_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    make = Maker(a=[1])
    assert load_or_make("letters", {}, ("a",), make)["a"].tolist() == [1]
    assert make.made == 1


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with pytest.raises(RuntimeError, match="half way"), atomic_write(path) as file:
        file.write(b"half")
        raise RuntimeError("half way")
    assert list(path.parent.iterdir()) == []
    with atomic_write(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_file_permissions_follow_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "file") as file:
            file.write(b"whole")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_concurrent_processes_agree(folder: Path) -> None:
    code = (
        "import numpy as np\n"
        "from workloads.data.cache import load_or_make\n"
        "for size in range(40):\n"
        "    made = load_or_make('race', {'size': size}, ('a',), lambda: {'a': np.arange(size)})\n"
        "    assert made['a'].tolist() == list(range(size))\n"
    )
    racers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    assert len(list(folder.glob("race-*/*"))) == 40


def test_the_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RNNSWEEP_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "rnnsweep"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "rnnsweep"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/rnnsweep")
    monkeypatch.setenv("RNNSWEEP_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
