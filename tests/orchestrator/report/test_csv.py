"""Tidy rows, read back by the csv module."""

from __future__ import annotations

import csv
import math
from io import StringIO

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.formats.csv_rows import HEADER
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, paired, sweep, trial


def read(record: SweepRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(render(summarise(record), "csv"), newline="")))


def test_one_row_a_trial_with_config_and_metrics_sorted() -> None:
    rows = read(paired(2))
    assert list(rows[0]) == [*HEADER, "batch_size", "units", "step_ms", "val_accuracy"]
    assert [(row["block"], row["implementation"]) for row in rows] == [
        ("0", "tensorflow/portable"),
        ("0", "tensorflow/portable+xla"),
        ("1", "tensorflow/portable"),
        ("1", "tensorflow/portable+xla"),
    ]
    assert rows[0]["run_id"] == "run-tensorflow/portable-0-0"
    assert rows[0]["arm"] == f"tensorflow/portable on {CPU}"
    assert float(rows[1]["step_ms"]) == 8.0


def test_what_is_absent_or_not_finite_is_empty() -> None:
    (row,) = read(sweep([trial(PORTABLE, 0, step_ms=math.nan, kernel=None)], (PORTABLE,)))
    assert (row["step_ms"], row["kernel_ran"]) == ("", "")


def test_taken_names_are_replaced() -> None:
    config = {"outcome": "on", "step_ms": 5, "config.outcome": 1}
    (row,) = read(sweep([trial(PORTABLE, 0, config=config)], (PORTABLE,)))
    assert (row["outcome"], row["step_ms"], row["metric.step_ms"]) == ("complete", "5", "10.0")
    assert (row["config.config.outcome"], row["config.outcome"]) == ("on", "1")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " ="])
def test_no_cell_is_a_formula(start: str) -> None:
    arm = Arm(f"{start}cmd|' /C calc'!A0", CPU)
    record = sweep([trial(arm, 0, config={f"{start}x": f"{start}1", "lr": -0.5})], (arm,))
    content = render(summarise(record), "csv")
    for cells in csv.reader(StringIO(content, newline="")):
        for cell in cells:
            if cell != "-0.5":  # a number, and so no text
                assert not cell.strip().startswith(("=", "+", "-", "@"))
    assert "-0.5" in content


def test_newlines_quotes_and_unicode_survive() -> None:
    failure = 'error: "a",\n名 | b'
    (row,) = read(sweep([trial(XLA, 0, status="failed", failure=failure)], (XLA,)))
    assert row["failure"] == failure


def test_no_trials_is_a_header() -> None:
    assert render(summarise(sweep([])), "csv") == ",".join(HEADER) + "\n"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown format 'pdf': expected text, markdown, json, csv or html"
    ):
        render(summarise(sweep([])), "pdf")  # type: ignore[arg-type]
