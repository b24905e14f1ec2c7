import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RNNSWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def install_keras(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the vendor's downloaders: those not given fail."""

    def fail(*_: Any, **__: Any) -> Any:
        raise Exception("there is no network")

    def install(**loaders: Any) -> None:
        sets = {
            name: SimpleNamespace(load_data=loaders.get(name, fail)) for name in ("mnist", "imdb")
        }
        utils = SimpleNamespace(get_file=loaders.get("get_file", fail))
        fake = SimpleNamespace(datasets=SimpleNamespace(**sets), utils=utils)
        monkeypatch.setitem(sys.modules, "keras", fake)

    return install
