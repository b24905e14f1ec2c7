"""Homes for sweeps: real Ray, real MLflow on SQLite, real trainer processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sweeping import Home, new_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A sweep home with an empty store. At the end none of its processes may be running."""
    home = new_home(tmp_path)
    yield home
    home.expect_nothing_running()


@pytest.fixture
def bare(tmp_path: Path) -> Home:
    """A home that does not exist yet; commands that run no trial do not create it."""
    return Home(tmp_path / "home")
