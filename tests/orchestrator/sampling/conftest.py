"""A module outside of the packages, with the sampler and the pruner that the documents name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import ROOT

EXAMPLE = ROOT / "tests" / "adding" / "my_samplers.py"


@pytest.fixture(autouse=True)
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with `my_samplers.py` the current one, which is not in `sys.path`."""
    (tmp_path / "my_samplers.py").write_text(EXAMPLE.read_text())
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    known = set(sys.modules)
    yield tmp_path
    assert sys.path == before
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
