"""The checks of a GPU as tiny tests, skipped without a GPU. In full size: `make gpu`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from orchestrator.hardware import probe
from tests.gpu.checks import CHECKS, Check, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Record, line
from tests.gpu.sizes import CELLS, QUICK
from workloads.implementations import BACKENDS


@pytest.fixture(scope="module")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not probe().gpus:
        pytest.skip("NVML sees no NVIDIA GPU")
    sizes, scratch = dataclasses.replace(QUICK, cells=CELLS), tmp_path_factory.mktemp("lab")
    with Lab("gpu", sizes, tuple(BACKENDS), scratch=scratch) as lab:
        yield lab


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_gpu_passes_the_check(check: Check, gpu_lab: Lab) -> None:
    record = Record(None, {})
    run_checks([check], gpu_lab, record)
    assert [line(outcome) for outcome in record.outcomes if outcome.status == "failed"] == []
    if all(outcome.status == "skipped" for outcome in record.outcomes):
        pytest.skip("; ".join(outcome.reason for outcome in record.outcomes))
