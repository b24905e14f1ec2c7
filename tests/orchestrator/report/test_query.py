"""Queries: the language, checked against an oracle; rows, formats and the command."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.api import query
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.query import (
    QueryError,
    Sheet,
    SheetColumn,
    as_bytes,
    ask,
    make_sheet,
)
from orchestrator.report.query.expression import parse
from orchestrator.report.query.known_metrics import known_metrics
from orchestrator.report.query.matching import likeness, matching
from tests.orchestrator.cli.typed_commands import Run, typed
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import PORTABLE, XLA, paired, sweep, trial
from tests.orchestrator.sample_sweeps import XLA as RECORDED_XLA
from tests.orchestrator.sample_sweeps import failed, finished, fresh_home
from tests.orchestrator.storage.tracking.recording import record

SHEET = Sheet(
    (
        SheetColumn("units", "whole", "param"),
        SheetColumn("accuracy", "number", "metric"),
        SheetColumn("name", "text", "trial"),
        SheetColumn("bidirectional", "truth", "param"),
    ),
    (
        (16, 0.5, "NVIDIA H200", True),
        (32, None, "AMD EPYC, 2 CPUs [timing]", False),
        (64, 0.9, None, None),
        (None, 0.7, "it's", True),
    ),
)


def chosen(where: str) -> list[int]:
    """Return the positions of the rows that an expression selects."""
    return [SHEET.rows.index(row) for row in matching(SHEET, where)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", [0, 1, 2, 3]),
        ("units = 16", [0]),
        ("units == 16.0", [0]),
        ("units != 16", [1, 2]),
        ("units>=32", [1, 2]),
        ("accuracy > .6 AND accuracy < 8e-1", [3]),
        ("units > -5 and units < +20", [0]),
        ("name ~ 'h200'", [0]),
        ("name !~ 'h200'", [1, 3]),
        ("name ~ 'nvidia*'", [0]),
        ("name ~ '?MD*'", [1]),
        ("name ~ '*[timing]'", [1]),
        ("name ~ 'NVIDIA?'", []),
        ("name = 'it''s'", [3]),
        ('name = "it\'s"', [3]),
        ("name in ('it''s', 'NVIDIA H200')", [0, 3]),
        ("units not in (16, 32)", [2]),
        ("bidirectional = true", [0, 3]),
        ("not bidirectional = true", [1]),
        ("accuracy is missing", [1]),
        ("accuracy is not missing and name is missing", [2]),
        ("not (accuracy > 0.6)", [0]),
        ("units = 16 or accuracy = 0.7", [0, 3]),
        ("units = 16 or units = 32 and accuracy > 0", [0]),
        ("(units = 16 or units = 64) and not name is missing", [0]),
        ("`units` = 64", [2]),
    ],
)
def test_an_expression_selects_rows(where: str, expected: list[int]) -> None:
    assert chosen(where) == expected


@pytest.mark.parametrize(
    ("where", "problem", "place"),
    [
        ("units", "expected =, !=, <, <=, >, >=, ~, !~, in (…) or is missing; received the end", 5),
        ("units = ", "expected a number, a text in quotes, true or false; received the end", 8),
        ("name = torch", "received torch without quotes: write 'torch'", 7),
        ("name = 'torch", "expected a closing '", 7),
        ("units = 1 & accuracy = 1", "received '&': write and", 10),
        ("units = 1 accuracy = 1", "expected and, or, or the end; received `accuracy`", 10),
        ("(units = 1", "expected and, or, or a closing parenthesis; received the end", 10),
        ("units in 1", "expected a list in parentheses", 9),
        ("units in (1 2)", "expected a comma, or a closing parenthesis; received `2`", 12),
        ("units not = 1", "expected in (…); received `=`", 10),
        ("units is 5", "expected missing, or not missing; received `5`", 9),
        ("and units = 1", "expected a column, such as val_accuracy; received `and`", 0),
        ("unit = 1", "no column 'unit'; did you mean 'units'?", 0),
        ("units = 1 and Accuracy > 1", "did you mean 'accuracy'?", 14),
        ("zzz = 1", "no column 'zzz'; `rnnsweep query SWEEP --list` lists the 4 columns", 0),
        ("units = '16'", "units is compared with a number; received '16'", 8),
        ("units = true", "units is compared with a number; received True", 8),
        ("name > 5", "name is compared with a text in quotes; received 5", 7),
        ("bidirectional > true", "bidirectional is true or false: expected = or !=", 16),
        ("bidirectional = 1", "bidirectional is compared with true or false; received 1", 16),
        ("units ~ '1'", "~ needs a text column, and units is none", 8),
        ("name ~ 5", "~ expects a text in quotes; received 5", 7),
        ("units = 5x", "received '5x'", 8),
        ("(" * 200 + "units = 1" + ")" * 200, "expected at most 100 levels of parentheses", 100),
    ],
)
def test_an_error_points_at_the_place(where: str, problem: str, place: int) -> None:
    with pytest.raises(QueryError) as error:
        chosen(where)
    message, line, caret = str(error.value).splitlines()
    assert problem in message
    assert error.value.place == place
    pointed = line[caret.index("^") :]
    assert pointed.startswith(where[place : place + 10].rstrip() or "")
    assert caret.strip() == "^"


def test_the_expressions_of_the_readme_are_valid() -> None:
    readme = Path(__file__).parents[3] / "README.md"
    expressions = re.findall(r'rnnsweep query \S+ "([^"]+)"', readme.read_text("utf-8"))
    assert expressions
    for expression in expressions:
        parse(expression)


def test_an_error_message_has_no_terminal_codes() -> None:
    with pytest.raises(QueryError) as error:
        parse("units = \x1b[31m")
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize("digits", ["9" * 5000, "1e999"])
def test_a_number_of_any_length(digits: str) -> None:
    assert chosen(f"units < {digits}") == [0, 1, 2]


# The oracle: the same expression as nested tuples, evaluated by the tables of three-valued logic.

_NUMBERS = st.integers(0, 3)
_CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.sampled_from("ab"), _NUMBERS),
    st.tuples(st.just("in"), st.sampled_from("ab"), st.lists(_NUMBERS, min_size=1, max_size=3)),
    st.tuples(st.just("missing"), st.sampled_from("ab")),
)
_TREES = st.recursive(
    _CONDITIONS,
    lambda part: st.one_of(
        st.tuples(st.just("not"), part),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(part, min_size=2, max_size=3)),
    ),
    max_leaves=8,
)


def _written(tree: Any) -> str:
    match tree:
        case ("not", part):
            return f"not ({_written(part)})"
        case (("and" | "or") as word, parts):
            return f" {word} ".join(f"({_written(part)})" for part in parts)
        case ("in", column, values):
            return f"{column} in ({', '.join(map(str, values))})"
        case ("missing", column):
            return f"{column} is missing"
        case (mark, column, value):
            return f"{column}{mark}{value}"
    raise AssertionError(tree)


def _judged(tree: Any, row: dict[str, int | None]) -> float:
    """Evaluate in Kleene's logic: true 1, false 0, unknown ½; and min, or max, not 1 − x."""
    match tree:
        case ("not", part):
            return 1 - _judged(part, row)
        case ("and", parts):
            return min(_judged(part, row) for part in parts)
        case ("or", parts):
            return max(_judged(part, row) for part in parts)
        case ("missing", column):
            return float(row[column] is None)
        case (mark, column, value):
            cell = row[column]
            if cell is None:
                return 0.5
            if mark == "in":
                return float(cell in value)
            order = (cell > value) - (cell < value)
            holds = {"=": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
            return float(order in holds[mark])
    raise AssertionError(tree)


@given(_TREES, st.lists(st.tuples(*[st.none() | _NUMBERS] * 2), max_size=6))
def test_the_language_follows_three_valued_logic(
    tree: Any, rows: list[tuple[int | None, int | None]]
) -> None:
    columns = tuple(SheetColumn(name, "whole", "param") for name in "ab")
    expected = [row for row in rows if _judged(tree, dict(zip("ab", row, strict=True))) == 1]
    assert list(matching(Sheet(columns, tuple(rows)), _written(tree))) == expected


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_an_error(where: str) -> None:
    try:
        matching(SHEET, where)
    except QueryError as error:
        assert 0 <= error.place <= len(where)


@given(st.text(alphabet="aB[]*?.\n", max_size=6), st.text(alphabet="aB[].\n", max_size=6))
def test_a_text_matches_itself_and_any_part_of_it(before: str, text: str) -> None:
    assert likeness(text)(before + text.swapcase())
    assert likeness(f"*{text}")(before + text)


def of(*trials: Any, **changes: Any) -> SweepRecord:
    return sweep(trials, **changes)


def test_params_include_config_and_settings() -> None:
    sheet = ask(of(trial(PORTABLE, 0), settings={"cell": "gru", "units": 7, "list": [1]}))
    row = dict(zip(sheet.names, sheet.rows[0], strict=True))
    assert (row["units"], row["cell"], row["batch_size"]) == (16, "gru", 32)
    assert "list" not in row


def test_a_column_name_that_is_taken_gets_a_prefix() -> None:
    sheet = make_sheet(of(trial(PORTABLE, 0, config={"arm": 3, "loss": 1}, metrics={"loss": 0.5})))
    row = dict(zip(sheet.names, sheet.rows[0], strict=True))
    assert row["arm"] == str(PORTABLE)
    assert (row["config.arm"], row["loss"], row["metric.loss"]) == (3, 1, 0.5)


def test_a_param_of_two_kinds_is_a_text() -> None:
    mixed = of(
        trial(PORTABLE, 0, config={"clip": 5, "deep": True}),
        trial(PORTABLE, 1, config={"clip": "off", "deep": 3}),
    )
    assert ask(mixed, "clip = '5' and deep = 'true'", ["block"]).rows == ((0,),)


def test_nan_is_missing_and_infinity_is_not() -> None:
    record = of(trial(PORTABLE, 0, loss=math.nan), trial(PORTABLE, 1, loss=math.inf))
    assert ask(record, "loss is missing", ["block"]).rows == ((0,),)
    assert ask(record, "loss > 1e300", ["block"]).rows == ((1,),)


def test_times_are_compared_with_dates() -> None:
    started = of(trial(PORTABLE, 0, started_s=1.7e9), trial(PORTABLE, 1, started_s=1.8e9))
    assert ask(started, "started < '2024-01-01'", ["block"]).rows == ((0,),)
    assert ask(started, "started > '2027-01-15T08:00:00+00:00'", ["block"]).rows == ()
    with pytest.raises(QueryError, match="started is compared with a date or time in quotes"):
        ask(started, "started > 'yesterday'")


def test_missing_values_are_sorted_last() -> None:
    losses = of(
        *(trial(PORTABLE, block, loss=loss) for block, loss in enumerate([2.0, None, 1.0, 2.0]))
    )
    assert [row[0] for row in ask(losses, "", ["block"], sort=["loss", "-block"]).rows] == [
        2, 3, 0, 1,
    ]  # fmt: skip
    assert [row[0] for row in ask(losses, "", ["block"], sort=["-loss"], limit=3).rows] == [0, 3, 2]


@pytest.mark.parametrize(("columns", "sort"), [(["block", "unit"], []), (["block"], ["-unit"])])
def test_unknown_columns_are_an_error(columns: list[str], sort: list[str]) -> None:
    with pytest.raises(QueryError, match="did you mean 'units'"):
        ask(paired(2), "", columns, sort=sort)


def test_a_sweep_without_trials_has_no_rows() -> None:
    assert ask(of(), "val_accuracy > 0.9", ["block", "val_accuracy"]).rows == ()
    with pytest.raises(QueryError):
        ask(of(), "val_accuracy >")


HOSTILE = Arm("=cmd|' /C calc'!A0", on_cpu("\x1b[31m<script>\u202e", 2))


def test_hostile_names_are_escaped() -> None:
    sheet = ask(of(trial(HOSTILE, 0), arms=[HOSTILE]), "", ["implementation", "hardware"])
    table = as_bytes(sheet, "table", {}).decode()
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert len(table.splitlines()) == 2
    (_, (name, _)) = csv.reader(io.StringIO(as_bytes(sheet, "csv", {}).decode()))
    assert name == f"'{HOSTILE.implementation}"
    (row,) = json.loads(as_bytes(sheet, "json", {}))["rows"]
    assert row == {"implementation": HOSTILE.implementation, "hardware": str(HOSTILE.hardware)}


def test_formats_agree(tmp_path: Path) -> None:
    sheet = ask(paired(3), "implementation ~ 'xla'", ["block", "arm", "units", "step_ms"])
    body = json.loads(as_bytes(sheet, "json", {"sweep": "quickstart"}))
    assert (body["format"], body["version"], body["sweep"]) == ("rnnsweep-query", 1, "quickstart")
    assert [column["kind"] for column in body["columns"]] == ["whole", "text", "whole", "number"]
    rows = list(csv.DictReader(io.StringIO(as_bytes(sheet, "csv", {}).decode())))
    assert [{**row, "block": int(row["block"])}["block"] for row in rows] == [0, 1, 2]
    (tmp_path / "found.parquet").write_bytes(as_bytes(sheet, "parquet", {}))
    frame = pd.read_parquet(tmp_path / "found.parquet")
    assert frame.to_dict("records") == body["rows"]
    assert list(map(str, frame.dtypes)) == ["Int64", "string", "Int64", "float64"]


def test_a_table_has_a_line_for_each_trial() -> None:
    sheet = ask(paired(200), "", ["block", "arm", "trial_key", "step_ms"])
    lines = as_bytes(sheet, "table", {}).decode().splitlines()
    assert len(lines) == 401
    assert len({line.index("tensorflow") for line in lines[1:]}) == 1


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with a sweep of three blocks on two arms; one trial failed."""
    home_path = fresh_home(tmp_path_factory.mktemp("query"))
    blocks = [finished(block) for block in range(3)]
    record(home_path, *blocks, finished(0, RECORDED_XLA), failed(1, RECORDED_XLA))
    return home_path


@pytest.fixture
def home(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return that home, set in the environment."""
    monkeypatch.setenv("RNNSWEEP_HOME", str(recorded))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return recorded


@pytest.fixture
def run(home: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `rnnsweep`: exit code, stdout, stderr."""

    return partial(typed, capfd)


@pytest.mark.usefixtures("home")
def test_a_data_frame_has_typed_columns() -> None:
    frame = query("quickstart", "outcome = 'complete'", sort=["-block"])
    kinds = {name: str(frame[name].dtype) for name in ("block", "arm", "units", "val_accuracy")}
    assert kinds == {"block": "Int64", "arm": "string", "units": "Int64", "val_accuracy": "float64"}
    assert str(frame["started"].dtype) == "datetime64[ms, UTC]"
    assert frame["bidirectional"].dtype == "boolean"
    assert list(frame["block"]) == [2, 1, 0, 0]
    empty = query("quickstart", "units > 1000", ["arm", "units"])
    assert (len(empty), str(empty["units"].dtype)) == (0, "Int64")


def test_the_command(run: Run, tmp_path: Path) -> None:
    code, out, err = run("query", "quickstart", "units >= 33", "--columns", "block,units,outcome")
    assert code == 0
    assert out.splitlines()[0].split() == ["block", "units", "outcome"]
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["1", "33", "complete"], ["1", "33", "failed"], ["2", "34", "complete"],
    ]  # fmt: skip
    assert err == "3 of 5 trials\n"
    target = tmp_path / "deep" / "found.csv"
    code, out, err = run("query", "quickstart", "-o", str(target), "--limit", "1")
    assert (code, out, err) == (0, "", f"wrote {target}\n")
    (row,) = csv.DictReader(target.open())
    assert (row["units"], row["val_accuracy"], row["cell"]) == ("32", "0.875", "lstm")


def test_the_default_columns(run: Run) -> None:
    _, out, _ = run("query", "quickstart#1")
    header = out.splitlines()[0].split()
    assert header[:3] == ["block", "implementation", "hardware"]
    assert header[-3:] == ["outcome", "val_accuracy", "step_ms"]
    _, listing, _ = run("query", "quickstart", "--list")
    listed_columns = {line.split()[0] for line in listing.splitlines()[1:]}
    assert {"sweep", "units", "val_accuracy", "run_id"} < listed_columns


def test_an_empty_result_is_no_error(run: Run) -> None:
    code, out, err = run("query", "quickstart", "units > 999", "--columns", "block")
    assert (code, out, err) == (0, "block\n", "0 of 5 trials\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("quickstart", "unit > 1"), "'units' or 'run_id'?\n  unit > 1\n  ^\n"),
        (("quickstart", "--columns", "block,val_acuracy"), "did you mean 'val_accuracy'?"),
        (("quickstrat",), "quickstart"),
        (("quickstart", "--generation", "7"), "quickstart#7"),
        (("quickstart", "-o", "/dev/null/x.csv"), "expected a place that can be written"),
    ],
)
def test_wrong_input_is_exit_code_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("query", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert message in err
    assert "Traceback" not in err


def test_binary_rows_are_not_written_to_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cli.reports.sys.stdout.isatty", lambda: True, raising=False)
    code, _, err = run("query", "quickstart", "--format", "parquet")
    assert code == 2
    assert "Add -o quickstart.parquet" in err
    code, _, err = run("report", "quickstart#1", "--format", "html")
    assert code == 2
    assert "Add -o quickstart-1.html" in err


def test_an_arm_is_selected_by_its_full_name() -> None:
    assert len(ask(paired(4), f"arm = '{XLA}'").rows) == 4


def test_a_metric_that_no_trial_has_is_missing_everywhere() -> None:
    record = paired(3)
    trial_count = len(record.trials)
    assert len(ask(record, "energy_j is missing").rows) == trial_count
    assert ask(record, "not (energy_j > 5)").rows == ()
    assert ask(record, "energy_j is missing").names == make_sheet(record).names
    sheet = ask(record, columns=["arm", "val_bits_per_char", "energy_j"], sort=["-cost_usd"])
    assert sheet.names == ("arm", "val_bits_per_char", "energy_j")
    assert {row[1:] for row in sheet.rows} == {(None, None)}
    with pytest.raises(QueryError, match="no column 'energy_jj'; did you mean"):
        ask(record, "energy_jj is missing")


def test_every_metric_that_the_readme_names_can_be_queried() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    rows = re.findall(r"^\| metrics, (?:of the|observed)[^|]* \|(.*)\|$", readme, re.MULTILINE)
    assert len(rows) == 3
    readme_metrics = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)} - {
        "synthetic"
    }
    valid_metrics = {
        metric
        for workload in ("image_rows", "char_rnn", "synthetic")
        for metric in known_metrics(replace(paired(1), workload=workload))
    }
    assert readme_metrics <= valid_metrics


def test_the_command_accepts_a_metric_that_no_trial_has(run: Run) -> None:
    arguments = ("energy_j is missing", "--columns", "run_id,energy_j", "--format", "csv")
    code, out, _ = run("query", "quickstart", *arguments)
    assert code == 0
    first, *rows = out.splitlines()
    assert first == "run_id,energy_j"
    assert {row.rpartition(",")[2] for row in rows} == {""}
