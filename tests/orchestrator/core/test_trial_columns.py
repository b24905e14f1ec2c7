"""The columns of a trial are the same wherever its row is written."""

from dataclasses import replace

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.core.trial_columns import COLUMNS, PARAMS, TAGS, TrialColumn
from orchestrator.report.query import trial_table
from orchestrator.storage.tracking.trial_content import trial_content
from tests.building.arms import ARMS_OF_CELLS, PORTABLE
from tests.building.hardware import build_cpu_use
from tests.building.records import build_record
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial, build_trial


def cell(name: str, of: FinishedTrial) -> object:
    (column,) = [column for column in COLUMNS if column.name == name]
    return column.get(of)


def test_each_column_is_in_the_run_and_the_sheet() -> None:
    content = trial_content(IDENTITY, build_full_trial())
    for stored, columns in ((content.params, PARAMS), (content.tags, TAGS)):
        for column in columns:
            assert (column.name in stored) == (column.get(build_full_trial()) is not None)
    sheet = trial_table(build_record([build_trial(0, PORTABLE)], (PORTABLE,))).column_names
    names = [column.name for column in COLUMNS]
    assert [name for name in sheet if name in names] == names
    (row,) = trial_table(
        build_record([build_trial(0, ARMS_OF_CELLS[1])], ARMS_OF_CELLS)
    ).to_pylist()
    assert (row["variant"], row["cell"]) == ("gru", "gru")


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_cells_have_the_kind_of_their_column(column: TrialColumn) -> None:
    kinds = {"whole": int, "number": float, "text": str, "truth": bool, "time": float}
    for of in (build_full_trial(), build_failed_trial()):
        value = column.get(of)
        assert value is None or type(value) is kinds[column.kind]


def test_missing_values() -> None:
    quiet = replace(
        build_full_trial(), outcome=replace(build_full_trial().outcome, telemetry=Telemetry())
    )
    assert [column.get(quiet) for column in COLUMNS[-8:]] == [None] * 8
    own = build_full_trial(arm=Arm("numpy/loop+fast", build_cpu_use("a host")))
    assert (cell("backend", own), cell("kernel", own), cell("jit", own)) == ("numpy", "loop", None)
    assert (
        cell("backend", build_full_trial(arm=Arm("my own thing", build_cpu_use("a host")))) is None
    )


def test_the_precision_is_what_ran() -> None:
    trial = build_trial(0)
    assert cell("precision", trial) == "float32"
    outcome = replace(trial.outcome, environment={"precision": "bf16"})
    assert cell("precision", replace(trial, outcome=outcome)) == "bf16"
