"""Settings for all tests: sharing the machine, and folders that tests may write."""

import math
import os
import random
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from orchestrator.hardware import other_processes
from tests.profiles import IN_CI

SWEEPS = {"faults", "integration", "gpu"}
"""The folders of tests with whole sweeps and processes of their own."""

# No deadline: a busy machine would miss any.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, max_examples=100)
settings.load_profile("ci" if IN_CI else "quick")

# Commands look for seconds at what else the machine does; tests start them a hundred times.
other_processes.LOOK_S = 0.05

# PyTorch's threads wait for each other by spinning, which turns seconds into minutes once another
# process uses their cores. Several trainers share the cores here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What PyTorch compiles here is small: processes of its own to compile it take longer to start.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# A shell starts its background jobs with SIGINT ignored, which programs under test would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` ignores it

# Tests have a home of their own, which is empty at first: what the user's own has (Ray's token,
# credentials, caches) must not decide whether they pass. Workers of xdist share it.
_is_worker = "PYTEST_XDIST_WORKER" in os.environ
if not _is_worker:
    os.environ["HOME"] = tempfile.mkdtemp(prefix="rnnsweep-tests-home-")
    os.environ["RNNSWEEP_CACHE"] = str(Path(os.environ["HOME"], "rnnsweep-cache"))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        os.environ.pop(name, None)


def pytest_unconfigure() -> None:
    if not _is_worker:
        shutil.rmtree(os.environ["HOME"], ignore_errors=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the names of skipped tests to a file: CI repeats them with every package."""
    skipped = os.environ.get("RNNSWEEP_SKIPPED_TESTS")
    if skipped and report.skipped and not _is_worker:
        with Path(skipped).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_report_header() -> str | None:
    seed = os.environ.get("RNNSWEEP_CASES_SEED")
    return f"a part of the full tests, drawn by RNNSWEEP_CASES_SEED={seed}" if seed else None


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let `-m full` select what an earlier run skipped, too, and leave out what is not drawn.

    So CI needs one run for both, and less time.
    """
    skipped = os.environ.get("RNNSWEEP_REPEAT_TESTS")
    if skipped and Path(skipped).exists():
        names = set(Path(skipped).read_text(encoding="utf-8").splitlines())
        for item in items:
            if item.nodeid in names:
                item.add_marker(pytest.mark.full)
    if seed := os.environ.get("RNNSWEEP_CASES_SEED"):
        left_out = _not_drawn(items, seed)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if (
        IN_CI
    ):  # whole sweeps take longest: begin with them, so that no worker ends long after others
        items.sort(key=lambda item: not SWEEPS.intersection(item.path.parts))


def _not_drawn(items: Sequence[pytest.Item], seed: str) -> set[pytest.Item]:
    """Return the full tests that a drawn run leaves out.

    Of the cases of one test a sixth is drawn, and then half of all that remain in a folder of
    `tests`, each time at least one.
    """
    full = [item for item in items if item.get_closest_marker("full")]
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in full:
        cases[item.nodeid.partition("[")[0]].append(item)
    folders = defaultdict[str, list[pytest.Item]](list)
    for name, of_test in cases.items():
        folders[Path(name).parts[1]] += _draw(of_test, 6, seed + name)
    drawn = {
        item for name, in_folder in folders.items() for item in _draw(in_folder, 2, seed + name)
    }
    return {*full} - drawn


def _draw(items: Sequence[pytest.Item], one_of: int, seed: str) -> list[pytest.Item]:
    return random.Random(seed).sample(items, math.ceil(len(items) / one_of))


@pytest.fixture(autouse=True)
def restore_rays_environment() -> Iterator[None]:
    before = {name: value for name, value in os.environ.items() if _is_rays(name)}
    yield
    for name in filter(_is_rays, list(os.environ)):
        if name not in before:
            del os.environ[name]
    os.environ.update(before)


def _is_rays(name: str) -> bool:
    return name.startswith(("RAY_", "TUNE_"))
