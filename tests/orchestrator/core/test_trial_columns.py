"""The columns of a trial are the same wherever its row is written."""

from dataclasses import replace

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.core.trial_columns import COLUMNS, PARAMS, TAGS, TrialColumn
from orchestrator.report.formats.csv_rows import HEADER
from orchestrator.report.query import trial_table
from orchestrator.storage.tracking.trial_content import trial_content
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import CELLS, PORTABLE, sweep, trial
from tests.orchestrator.sample_sweeps import IDENTITY, failed, finished


def cell(name: str, of: FinishedTrial) -> object:
    (column,) = [column for column in COLUMNS if column.name == name]
    return column.get(of)


def test_each_column_is_in_the_run_the_csv_and_the_sheet() -> None:
    content = trial_content(IDENTITY, finished())
    for stored, columns in ((content.params, PARAMS), (content.tags, TAGS)):
        for column in columns:
            assert (column.name in stored) == (column.get(finished()) is not None)
    assert HEADER[:-1] == tuple(column.name for column in COLUMNS)
    sheet = trial_table([sweep([trial(PORTABLE, 0)], (PORTABLE,))]).column_names
    names = [column.name for column in COLUMNS]
    assert [name for name in sheet if name in names] == names
    (row,) = trial_table([sweep([trial(CELLS[1], 0)], CELLS)]).to_pylist()
    assert (row["variant"], row["cell"]) == ("gru", "gru")


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_cells_have_the_kind_of_their_column(column: TrialColumn) -> None:
    kinds = {"whole": int, "number": float, "text": str, "truth": bool, "time": float}
    for of in (finished(), failed()):
        value = column.get(of)
        assert value is None or type(value) is kinds[column.kind]


def test_missing_values() -> None:
    quiet = replace(finished(), outcome=replace(finished().outcome, telemetry=Telemetry()))
    assert [column.get(quiet) for column in COLUMNS[-8:]] == [None] * 8
    own = finished(arm=Arm("numpy/loop+fast", on_cpu("a host")))
    assert (cell("backend", own), cell("kernel", own), cell("jit", own)) == ("numpy", "loop", None)
    assert cell("backend", finished(arm=Arm("my own thing", on_cpu("a host")))) is None
