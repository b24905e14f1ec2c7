"""Data sets that are downloaded: whether they are here, or can be had."""

from pathlib import Path

import pytest

from tests.http_double import answering
from workloads.data import sources
from workloads.data.sources import ADDRESSES, DOWNLOADS, expect_available
from workloads.failures import DataError

NOBODY = "http://127.0.0.1:9/data"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setattr(sources, "ADDRESSES", dict.fromkeys(ADDRESSES, NOBODY))
    (tmp_path / "datasets").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "file"),
    [("mnist", "mnist.npz"), ("imdb", "imdb.npz"), ("shakespeare", "shakespeare.txt")],
)
def test_a_data_set_is_here_or_its_address_answers(
    home: Path, monkeypatch: pytest.MonkeyPatch, dataset: str, file: str
) -> None:
    with pytest.raises(DataError, match=str(home / "datasets" / file)):
        expect_available(dataset)
    with answering(lambda request: (200 if request.command == "HEAD" else 404, "")) as address:
        monkeypatch.setattr(sources, "ADDRESSES", {dataset: f"{address}/{file}"})
        expect_available(dataset)
    (home / "datasets" / file).touch()
    monkeypatch.setattr(sources, "ADDRESSES", {dataset: NOBODY})
    expect_available(dataset)


def test_files_and_bundled_data_are_read() -> None:
    expect_available("digits")
    with pytest.raises(DataError, match="no_such_file"):
        expect_available("mnist", "no_such_file.npz")
    assert DOWNLOADS.keys() == ADDRESSES.keys()
