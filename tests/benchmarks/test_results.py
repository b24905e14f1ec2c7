"""Texts and files of benchmarks, for given figures and without a measurement."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import __version__
from tests.benchmarks import (
    coverage,
    fit_overhead,
    overhead,
    report,
    rig,
    telemetry_cost,
    unlike_nodes,
)
from tests.benchmarks.fit_overhead import Round
from tests.benchmarks.overhead import Way
from tests.benchmarks.telemetry_cost import Watched

RIG = {"date": "2026-01-01", "cpu": "X"}


def written(folder: Path, name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return result


def test_the_environment_has_versions() -> None:
    environment = rig.environment("numpy", "ray")
    assert next(iter(environment)) == "date"
    assert {"cpu", "cpus", "memory", "load before", "system", "python"} < set(environment)
    assert (environment["rnnsweep"], list(environment)[-2:]) == (__version__, ["numpy", "ray"])
    assert "" not in environment.values()
    assert rig.heading(RIG) == "date 2026-01-01, cpu X"


def test_a_result_is_written_as_text_and_json(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    rig.keep(folder, "mine", {"what": "1.2 ×"}, "so\n")
    assert written(folder, "mine") == {"what": "1.2 ×"}
    assert (folder / "mine.txt").read_text() == "so\n"
    assert "×" in (folder / "mine.json").read_text()


@pytest.mark.parametrize(("seconds", "verdict"), [(15.0, "reached"), (36.0, "missed")])
def test_a_trials_overhead(seconds: float, verdict: str) -> None:
    lines = overhead.as_text(RIG, [Way("ours", 300, seconds), Way("Tune", 10, 1.0)]).splitlines()
    assert lines[1] == "date 2026-01-01, cpu X"
    assert f"{1e3 * seconds / 300:.1f} ms a trial  (rnnsweep takes 1.00 × that)" in lines[2]
    assert f"(rnnsweep takes {seconds / 30:.2f} × that)" in lines[3]
    assert lines[-1].endswith(verdict)


@pytest.mark.parametrize(
    ("trials_s", "verdict"),
    [((1.0, 1.01, 0.99), "reached"), ((1.1, 1.11, 1.09), "missed"), ((0.8, 1.4), "inconclusive")],
)
def test_the_ratio_of_a_trials_epochs_to_a_bare_script(
    trials_s: tuple[float, ...], verdict: str
) -> None:
    text = fit_overhead.as_text(RIG, [Round(seconds, 1.0, 0.5) for seconds in trials_s])
    (ratio,) = (line for line in text.splitlines() if line.startswith("trial / bare:"))
    assert ratio.endswith(f"to reach: at most 1.03: {verdict}")


def test_the_names_that_the_bare_script_imports_exist() -> None:
    """The script is a string, which no type checker reads."""
    imported = [
        (statement.module, name.name)
        for statement in ast.walk(ast.parse(fit_overhead._BARE))
        if isinstance(statement, ast.ImportFrom)
        and (statement.module or "").startswith("workloads")
        for name in statement.names
    ]
    assert imported
    for module, name in imported:
        assert hasattr(importlib.import_module(module or ""), name)


@pytest.mark.parametrize(("share", "verdict"), [(0.004, "reached"), (0.01, "missed")])
def test_the_cost_of_telemetry(share: float, verdict: str) -> None:
    text = telemetry_cost.as_text(RIG, [Watched("a CPU's trial", 30, 6, share)])
    assert f"{share:.2%}" in text
    assert text.endswith(f"to reach: under 1% of a core: {verdict}")


def reported(**seconds_and_mib: tuple[float, int]) -> Mapping[str, Any]:
    names = {"text": "report, text", "html": "report, html", "search": "mlflow.search_runs"}
    costs = {
        names[name]: {"median_wall_s": wall_s, "median_cpu_s": wall_s, "median_peak_mib": mib}
        for name, (wall_s, mib) in seconds_and_mib.items()
    }
    about = {"environment": RIG, "trials": 9, "arms": 3, "store_mib": 1}
    return {**about, "highest_load_before_a_run": 0.1, "commands": costs}


def test_a_report_beyond_its_limits_fails() -> None:
    good = reported(text=(4.9, 400), html=(14.0, 400), search=(60.0, 4000))
    assert report.missed(good) == []
    assert report.as_text(good).count("reached") == 2
    bad = reported(text=(5.1, 400), html=(14.0, 1025))
    assert report.missed(bad) == ["report, text", "report, html"]
    assert report.as_text(bad).count("missed") == 2


def test_coverages_are_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--rounds", "20", "--reports", "20", "--sweeps", "200", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["coverage", *few])
    coverage.main()
    output = capsys.readouterr().out
    result = written(tmp_path, "coverage")
    assert (tmp_path / "coverage.txt").read_text() == output
    assert result["draws"] == {"rounds": 20, "reports": 20, "sweeps": 200}
    assert result["environment"]["rnnsweep"] == __version__
    by_name = {(row["turns"], row["wanted"]): row["coverage"] for row in result["rounds"]}
    assert by_name["independent", 0.02] > by_name["slow drift (0.98) plus noise", 0.02]
    assert {(row["blocks"], row["count"]) for row in result["reports"]} >= {
        ("one in ten half as slow again", 12),
        ("one in ten half as slow again", 40),
    }
    assert all(0.85 < row["coverage"] <= 1 for row in result["sweeps"])


def test_a_note_is_written_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--only", "simulated", "--blocks", "4", "--seeds", "2", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["unlike_nodes", *few, "--note", "On a busy machine."])
    unlike_nodes.main()
    text = (tmp_path / "unlike_nodes.txt").read_text()
    assert text == capsys.readouterr().out.rstrip("\n") + "\n"
    assert "\n\nOn a busy machine.\n\nSimulated" in text
    assert written(tmp_path, "unlike_nodes")["asked"]["note"] == "On a busy machine."
