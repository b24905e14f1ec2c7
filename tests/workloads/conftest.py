"""Shared trainer processes: importing a framework takes seconds, and happens once."""

from collections.abc import Callable, Iterator

import pytest

from tests.ordinary_user import ordinary_user, own_folder
from tests.workloads.shared_trainer import Trainer, expect_package, result

__all__ = ["ordinary_user", "own_folder"]


@pytest.fixture(scope="session")
def trainer() -> Iterator[Trainer]:
    # It is configured first: some probes compute without a trial's preparation, and whichever test
    # comes next could not fix the thread pools any more.
    with Trainer() as process:
        result(process.ask("tests.workloads.probes:configure", "tensorflow/portable"))
        yield process


@pytest.fixture(scope="session")
def jax_trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    expect_package("jax")
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    with Trainer(environment=cache) as process:
        yield process


@pytest.fixture(scope="session")
def torch_trainer() -> Iterator[Trainer]:
    expect_package("torch")
    with Trainer() as process:
        yield process


@pytest.fixture
def trainer_for(request: pytest.FixtureRequest) -> Callable[[str], Trainer]:
    def trainer(implementation: str) -> Trainer:
        backend = implementation.partition("/")[0]
        name = "trainer" if backend == "tensorflow" else f"{backend}_trainer"
        return request.getfixturevalue(name)

    return trainer


@pytest.fixture
def trainer_of(trainer_for: Callable[[str], Trainer], backend: str) -> Trainer:
    return trainer_for(backend)
