"""A user's own workload is imported in another process before anything runs for it."""

import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.execution import workload_check
from orchestrator.execution.workload_check import WorkloadUnusable, expect_importable
from orchestrator.spec import SweepSpec
from tests.orchestrator.sample_specs import spec

CASES = yaml.safe_load(Path(__file__).with_name("user_modules.yaml").read_text())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in CASES["modules"].items():
        (tmp_path / f"{name}.py").write_text(text)


def sweep(workload: str) -> SweepSpec:
    return spec(workload=workload, sampler=None, space=None, configs=[{"units": 8}])


@pytest.mark.parametrize(("workload", "reason", "nodes_may_have_it"), CASES["workloads"])
def test_a_workload_that_cannot_be_imported_is_refused(
    workload: str, reason: str | None, nodes_may_have_it: bool
) -> None:
    for on_cluster in (False, True):
        if reason is None or (on_cluster and nodes_may_have_it):
            expect_importable(sweep(workload), on_cluster=on_cluster)
            assert workload.partition(":")[0] not in sys.modules
            continue
        with pytest.raises(WorkloadUnusable, match=reason) as refused:
            expect_importable(sweep(workload), on_cluster=on_cluster)
        assert str(refused.value).startswith(f"workload: {workload} cannot be used: ")


def test_an_import_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_check, "_LIMIT_S", 0.5)
    with pytest.raises(WorkloadUnusable, match="took more than"):
        expect_importable(sweep("slow:run"), on_cluster=False)
