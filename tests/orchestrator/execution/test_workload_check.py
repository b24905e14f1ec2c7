"""A user's own workload is imported in another process before anything runs for it."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestrator.execution import workload_check
from orchestrator.execution.workload_check import WorkloadUnusable, expect_importable
from orchestrator.spec import SweepSpec
from tests.building.specs import build_spec

MODULES = {
    "good": """\
import json
print('noise')
def run(trial): return {}
""",
    "lacking": """\
import no_such_package
def run(trial): return {}
""",
    "failing": "raise RuntimeError('no\\nlicence')\n",
    "clashing": "import workloads.mine\n",
    "ending": """\
import os
print('the last words')
os._exit(5)
""",
    "slow": """\
import time
time.sleep(60)
""",
    "picky": """\
import os
assert os.environ['KERAS_BACKEND'] == 'tensorflow'
def run(trial): ...
""",
}
"""Modules of users, of which most cannot be imported."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)


def sweep(workload: str) -> SweepSpec:
    return build_spec(workload=workload, sampler=None, space=None, configs=[{"units": 8}])


class UserWorkload(NamedTuple):
    """A workload in MODULES, what is wrong with it, and whether nodes may have it nevertheless."""

    workload: str
    reason: str | None = None
    nodes_may_have_it: bool = False


USER_WORKLOADS = [
    UserWorkload(workload="good:run", nodes_may_have_it=True),
    UserWorkload(workload="picky:run", nodes_may_have_it=True),
    UserWorkload(workload="good:walk", reason="no function 'walk' in"),
    UserWorkload(
        workload="failing:run", reason="RuntimeError: no, at failing.py:1\nlicence\n  File "
    ),
    UserWorkload(workload="clashing:run", reason="rename yours"),
    UserWorkload(workload="ending:run", reason="the last words"),
    UserWorkload(workload="no_such_module:run", reason="no_such", nodes_may_have_it=True),
    UserWorkload(workload="lacking:run", reason="no_such", nodes_may_have_it=True),
]


@pytest.mark.parametrize("case", USER_WORKLOADS, ids=lambda case: case.workload)
def test_a_workload_that_cannot_be_imported_is_refused(case: UserWorkload) -> None:
    for on_cluster in (False, True):
        if case.reason is None or (on_cluster and case.nodes_may_have_it):
            expect_importable(sweep(case.workload), on_cluster=on_cluster)
            assert case.workload.partition(":")[0] not in sys.modules
            continue
        with pytest.raises(WorkloadUnusable, match=case.reason) as refused:
            expect_importable(sweep(case.workload), on_cluster=on_cluster)
        assert str(refused.value).startswith(f"workload: {case.workload} cannot be used: ")


def test_an_import_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_check, "_LIMIT_S", 0.5)
    with pytest.raises(WorkloadUnusable, match="took more than"):
        expect_importable(sweep("slow:run"), on_cluster=False)
