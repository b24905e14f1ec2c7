"""Homes for sweeps: real Ray, real MLflow on SQLite, real trainer processes."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sweeping import Home, cluster, new_home


@pytest.fixture(scope="module")
def ray_token() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


@pytest.fixture(scope="module")
def address(ray_token: None) -> Iterator[str]:
    with cluster() as (address, _):
        yield address


@pytest.fixture
def joining(address: str, tmp_path: Path) -> Home:
    return new_home(tmp_path, address)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A sweep home with an empty store. At the end none of its processes may be running."""
    home = new_home(tmp_path)
    yield home
    home.expect_nothing_running()
