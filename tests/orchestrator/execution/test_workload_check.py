"""A user's own workload is imported in another process before anything runs for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.execution import workload_check
from orchestrator.execution.workload_check import WorkloadUnusable, expect_importable
from orchestrator.spec import SweepSpec
from tests.orchestrator.sample_specs import spec

MODULES = {
    "good": "import json\nprint('noise')\ndef run(trial): return {}\n",
    "lacking": "import no_such_package\ndef run(trial): return {}\n",
    "broken": "x = [\n",
    "failing": "raise RuntimeError('no\\nlicence')\n",
    "clashing": "import workloads.mine\n",
    "ending": "import os\nprint('the last words')\nos._exit(5)\n",
    "leaving": "import sys\nsys.exit(0)\n",
    "slow": "import time\ntime.sleep(60)\n",
    "picky": "import os\nassert os.environ['KERAS_BACKEND'] == 'tensorflow'\ndef run(trial): ...\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with these modules."""
    monkeypatch.chdir(tmp_path)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)


def sweep(workload: str) -> SweepSpec:
    return spec(workload=workload, sampler=None, space=None, configs=[{"units": 8}])


@pytest.mark.parametrize(
    ("workload", "reason", "nodes_may_have_it"),
    [
        ("good:run", None, True),
        ("picky:run", None, True),
        ("good:walk", "expected a function 'walk' in", False),
        ("good:json", "expected a function 'json' in", False),
        ("broken:run", "SyntaxError: ", False),
        ("failing:run", "RuntimeError: no, at failing.py:1\nlicence\n  File ", False),
        ("clashing:run", "rename it", False),
        ("ending:run", "the last words", False),
        ("leaving:run", "SystemExit: 0", False),
        ("no_such_module:run", "no_such", True),
        ("lacking:run", "no_such", True),
    ],
)
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
