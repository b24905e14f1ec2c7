"""Queries: the trials in SQL, the sandbox, errors, formats and the command."""

import csv
import io
import json
import math
import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.api import query
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.query import QueryError, as_bytes, query_records
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_cpu_use
from tests.building.records import build_paired_record, build_record
from tests.building.stores import build_home
from tests.building.trials import build_failed_trial, build_full_trial, build_trial
from tests.orchestrator.cli.typed_commands import Run, type_command
from tests.orchestrator.storage.tracking.recording import record

SWEEP = build_paired_record(4)
LOSSES = build_record(
    [
        build_trial(block, PORTABLE, loss=loss)
        for block, loss in enumerate([2.0, None, 1.0, 2.0, math.nan, math.inf])
    ]
)
STARTED = build_record(
    [build_trial(0, PORTABLE, started_s=1.7e9), build_trial(1, PORTABLE, started_s=1.8e9)]
)
SET = build_record([build_trial(0, PORTABLE)], settings={"cell": "gru", "units": 7, "list": [1]})
TAKEN = build_record(
    [build_trial(0, PORTABLE, config={"arm": 3, "Loss": 1}, metrics={"loss": 0.5})]
)
TWO_KINDS = build_record(
    [
        build_trial(0, PORTABLE, config={"clip": 5, "deep": True, "wide": 2**70}),
        build_trial(1, PORTABLE, config={"clip": "off", "deep": 3, "wide": 1}),
    ]
)
RECORDS = {
    "paired": build_paired_record(1),
    "set": SET,
    "taken": TAKEN,
    "two kinds": TWO_KINDS,
    "losses": LOSSES,
    "started": STARTED,
    "empty": build_record([]),
}
HOSTILE = Arm("=cmd|' /C calc'!A0", build_cpu_use("\x1b[31m<script>\u202e\ud800", 2))


def rows(record: SweepRecord, where: str, columns: list[str], **options: Any) -> list[list[Any]]:
    frame = query_records(record, where, columns, **options)
    return frame.astype(object).where(frame.notna(), None).to_numpy().tolist()


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("", 8),
        ("units >= 32 AND step_ms < 9 -- only XLA", 3),
        ("arm = 'tensorflow/portable+xla on AMD EPYC, 2 CPUs'", 4),
        ("NOT jit", 4),
        ("energy_j IS NULL", 8),
        ("block = (SELECT max(block) FROM trials)", 2),
    ],
)
def test_a_condition_selects_trials(where: str, count: int) -> None:
    assert len(query_records(SWEEP, where)) == count


@pytest.mark.parametrize(
    ("name", "where", "columns", "expected"),
    [
        ("set", "", ["units", "cell", "batch_size"], [[16, "gru", 32]]),
        (
            "taken",
            '"config.arm" = 3',
            ["arm", "Loss", "metric.loss"],
            [["tensorflow/portable on AMD EPYC, 2 CPUs", 1, 0.5]],
        ),
        ("two kinds", "clip = '5' AND deep = 'true'", ["wide"], [[1.1805916207174113e21]]),
        ("losses", "loss IS NULL", ["block"], [[1], [4]]),
        ("losses", "loss > 1e300", ["block"], [[5]]),
        ("started", "started < '2024-01-01'", ["block"], [[0]]),
        ("started", "year(started) = 2027", ["block"], [[1]]),
        ("empty", "val_accuracy > 0.9 AND units > 3", ["block", "units"], []),
    ],
)
def test_columns_are_params_metrics_and_facts_of_trials(
    name: str, where: str, columns: list[str], expected: list[list[Any]]
) -> None:
    assert rows(RECORDS[name], where, columns) == expected


def test_rows_are_sorted_with_missing_values_last() -> None:
    by_loss = rows(LOSSES, "", ["block"], sort=["loss", "-block"])
    assert by_loss == [[2], [3], [0], [5], [4], [1]]
    assert rows(LOSSES, "", ["block"], sort=["-loss"], limit=2) == [[5], [0]]


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        ("paired", "unit > 1", "no column 'unit'; did you mean units"),
        ("paired", 'hardware = "H200"', "no column 'H200'. A text is in single quotes"),
        ("taken", "config.arm = 3", 'did you mean "config.arm"'),
        ("paired", "units > 'many'", "Could not convert string 'many'"),
        ("paired", "units = 1; DROP TABLE trials", "received SELECT, DROP"),
        ("paired", "units = \x1b[31m", "syntax error"),
        ("paired", "units AND AND 1", "\n  units AND AND 1\n            ^^^"),
        ("paired", "step_ms >> 0.8", "No function matches"),
    ],
)
def test_a_wrong_condition_is_explained(name: str, where: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        query_records(RECORDS[name], where)
    assert message in str(error.value)
    assert "\x1b" not in str(error.value) and "Candidate" not in str(error.value)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM frame",
        "COPY trials TO '/tmp/stolen.csv'",
        "SET enable_external_access = true",
        "CREATE TABLE mine AS FROM trials",
        "FROM trials; FROM trials",
    ],
)
def test_a_query_reads_only_trials(sql: str) -> None:
    frame = pd.DataFrame({"units": [1]})
    with pytest.raises(QueryError):
        query_records(SWEEP, sql=sql)
    assert len(frame) == 1


def test_results_have_the_types_and_names_of_their_columns() -> None:
    statement = "SELECT sum(units), 0.5, [1], now(), units, units FROM trials GROUP BY 5"
    mixed = query_records(SWEEP, sql=statement)
    assert [str(dtype) for dtype in mixed.dtypes] == [
        "float64", "float64", "string", "datetime64[ms, UTC]", "Int64", "Int64",
    ]  # fmt: skip
    assert list(mixed)[-2:] == ["units", "units_1"]
    pivoted = query_records(
        SWEEP, sql="PIVOT trials ON implementation USING median(step_ms) GROUP BY units"
    )
    assert list(pivoted) == ["units", "tensorflow/portable", "tensorflow/portable+xla"]
    frame = query(STARTED, columns=["block", "arm", "jit", "started"], sort=["-block"])
    assert [str(dtype) for dtype in frame.dtypes] == [
        "Int64", "string", "boolean", "datetime64[ms, UTC]",
    ]  # fmt: skip
    assert list(frame["block"]) == [1, 0]
    empty = query(build_paired_record(1), "units > 1000", ["units"])
    assert (len(empty), str(empty["units"].dtype)) == (0, "Int64")
    assert len(query_records(build_record([]), lists=True))


def test_an_endless_query_can_be_interrupted() -> None:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    endless = (
        "SELECT count(*) FROM range(1000000000000) a, range(1000000) b WHERE a.range = b.range + 1"
    )
    with pytest.raises(KeyboardInterrupt):
        query_records(SWEEP, sql=endless)


def test_a_query_runs_in_a_sandbox_that_it_cannot_open() -> None:
    names = "('enable_external_access', 'autoload_known_extensions', 'lock_configuration')"
    read = query_records(
        SWEEP, sql=f"SELECT name, value FROM duckdb_settings() WHERE name IN {names}"
    )
    assert dict(zip(read["name"], read["value"], strict=True)) == {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "lock_configuration": "true",
    }


def test_hostile_names_are_escaped() -> None:
    frame = query_records(
        build_record([build_trial(0, HOSTILE)], [HOSTILE]),
        "",
        ["implementation", "hardware"],
    )
    table = as_bytes(frame, "table", {}).decode()
    assert not {"\x1b", "\u202e"} & set(table)
    assert len(table.splitlines()) == 2
    (_, (name, _)) = csv.reader(io.StringIO(as_bytes(frame, "csv", {}).decode()))
    assert name == f"'{HOSTILE.implementation}"
    (row,) = json.loads(as_bytes(frame, "json", {}))["rows"]
    assert row["implementation"] == HOSTILE.implementation


@pytest.mark.parametrize("start", ["=", "@", "\t=", "\r=", " ="])
def test_no_csv_cell_is_a_formula(start: str) -> None:
    finished = build_trial(0, config={f"{start}x": f"{start}1", "lr": -0.5})
    frame = query_records(build_record([finished]), "", [f"{start}x", "lr"])
    head, (cell, number) = csv.reader(io.StringIO(as_bytes(frame, "csv", {}).decode(), newline=""))
    assert not any(text.strip().startswith(("=", "@")) for text in (*head, cell))
    assert number == "-0.5"


def test_formats_agree(tmp_path: Path) -> None:
    frame = query_records(STARTED, "", ["block", "arm", "step_ms", "jit", "started"])
    body = json.loads(as_bytes(frame, "json", {"sweep": "s"}))
    assert (body["format"], body["version"], body["sweep"]) == ("rnnsweep-query", 2, "s")
    kinds = ["whole", "text", "number", "truth", "time"]
    assert [column["kind"] for column in body["columns"]] == kinds
    from_csv = list(csv.DictReader(io.StringIO(as_bytes(frame, "csv", {}).decode())))
    assert [row["block"] for row in from_csv] == ["0", "1"]
    assert (from_csv[0]["jit"], from_csv[0]["started"]) == ("false", body["rows"][0]["started"])
    (tmp_path / "found.parquet").write_bytes(as_bytes(frame, "parquet", {}))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "found.parquet"), frame)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home_path = build_home(tmp_path_factory.mktemp("query"))
    blocks = [build_full_trial(block) for block in range(3)]
    record(home_path, *blocks, build_full_trial(0, XLA), build_failed_trial(1, XLA))
    return home_path


@pytest.fixture
def run(recorded: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("RNNSWEEP_HOME", str(recorded))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return partial(type_command, capfd)


CELLS = {
    "a null next to numbers": ("SELECT * FROM (VALUES (1.5), (NULL)) t(cell)", [1.5, None]),
    "only nulls": ("SELECT NULL AS cell", [None]),
    "NaN and infinity": ("SELECT unnest(['nan'::DOUBLE, 'inf'::DOUBLE]) AS cell", [None, None]),
    "whole numbers and a null": ("SELECT unnest([3, NULL]) AS cell", [3, None]),
    "HUGEINT": ("SELECT 2::HUGEINT ** 100 AS cell", [2.0**100]),
    "truths and a null": ("SELECT unnest([true, NULL]) AS cell", [True, None]),
    "a time and a null": (
        "SELECT unnest([TIMESTAMP '2020-01-02', NULL]) AS cell",
        ["2020-01-02T00:00:00.000+00:00", None],
    ),
    "infinite time": ("SELECT 'infinity'::TIMESTAMP AS cell", [None]),
    "a list and a null": ("SELECT unnest([[1, 2], NULL]) AS cell", ["[1, 2]", None]),
    "an empty table": ("SELECT 1 AS cell WHERE false", []),
}


@pytest.mark.parametrize(("sql", "cells"), CELLS.values(), ids=CELLS)
def test_every_format_takes_every_cell(sql: str, cells: list[Any]) -> None:
    frame = query_records(SWEEP, sql=sql)
    read = json.loads(as_bytes(frame, "json", {}))["rows"]
    assert [row["cell"] for row in read] == cells
    _, *lines = csv.reader(io.StringIO(as_bytes(frame, "csv", {}).decode()))
    assert [line[0] != "" for line in lines] == [cell is not None for cell in cells]
    assert len(as_bytes(frame, "table", {}).splitlines()) == 1 + len(cells)
    assert len(pd.read_parquet(io.BytesIO(as_bytes(frame, "parquet", {})))) == len(cells)


def test_the_command_prints_the_trials_that_match_and_their_number(run: Run) -> None:
    code, out, err = run("query", "quickstart", "units >= 33", "--columns", "block,units,outcome")
    assert (code, err) == (0, "3 of 5 trials\n")
    assert [line.split() for line in out.splitlines()] == [
        ["block", "units", "outcome"],
        ["1", "33", "complete"], ["1", "33", "failed"], ["2", "34", "complete"],
    ]  # fmt: skip
    nothing = run("query", "quickstart", "units > 999", "--columns", "block")
    assert nothing == (0, "block\n", "0 of 5 trials\n")


def test_the_columns_of_the_command_are_chosen_shown_by_default_or_listed(run: Run) -> None:
    chosen = run("query", "quickstart", "units < 33", "--columns", "block,config,outcome")[1]
    first, *params, last = chosen.splitlines()[0].split()
    assert (first, last) == ("block", "outcome")
    assert {"units", "layers"} <= {*params} and "config" not in params
    header = run("query", "quickstart#1")[1].splitlines()[0].split()
    assert header[:3] == ["block", "implementation", "hardware"]
    assert header[-3:] == ["outcome", "val_accuracy", "step_ms"]
    listing = run("query", "quickstart", "--list")[1]
    listed = {line.split()[0] for line in listing.splitlines()[1:]}
    assert {"sweep", "units", "val_accuracy", "run_id"} < listed


def test_the_command_writes_a_file(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "found.csv"
    done = run("query", "quickstart", "-o", str(target), "--limit", "1")
    assert done == (0, "", f"wrote {target}\n")
    (row,) = csv.DictReader(target.open())
    assert (row["units"], row["val_accuracy"], row["cell"]) == ("32", "0.875", "lstm")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quickstart", "--columns", "block,val_acuracy"], "did you mean val_accuracy?"),
        (["quickstart", "units > 1", "--sql", "FROM trials"], "--sql excludes WHERE"),
        (["other"], "other"),
    ],
)
def test_wrong_input_is_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("query", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert message in err
    assert "Traceback" not in err


def test_binary_rows_are_not_written_to_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cli.options.sys.stdout.isatty", lambda: True, raising=False)
    code, _, err = run("query", "quickstart", "--format", "parquet")
    assert code == 2
    assert "Add -o quickstart.parquet" in err
    code, _, err = run("report", "quickstart#1", "--format", "html")
    assert code == 2
    assert "Add -o quickstart-1.html" in err


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (
            "SELECT a.range, list(b.range) FROM range(100000) a, range(10000) b GROUP BY 1",
            "_MEMORY_MIB",
        ),
        ("SELECT a.range FROM range(100000) a, range(10000) b", "_RESULT_MIB"),
    ],
)
def test_a_query_has_a_limit_of_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch, sql: str, limit: str
) -> None:
    monkeypatch.setattr(f"orchestrator.report.query.{limit}", 100)
    code, out, err = run("query", "quickstart", "--sql", sql)
    assert (code, out) == (2, "")
    assert "more than 100 MiB" in err
