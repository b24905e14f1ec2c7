"""What benchmarks tell and keep, of figures that are given: without measuring anything."""

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


def kept(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def test_a_rig_is_told_with_its_versions() -> None:
    found = rig.told("numpy", "ray")
    assert next(iter(found)) == "date"
    assert {"cpu", "cpus", "memory", "load before", "system", "python"} < set(found)
    assert (found["rnnsweep"], list(found)[-2:]) == (__version__, ["numpy", "ray"])
    assert "" not in found.values()
    assert rig.heading(RIG) == "date 2026-01-01, cpu X"


def test_a_result_is_kept_for_a_person_and_for_a_script(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    rig.keep(folder, "mine", {"what": "1.2 ×"}, "so\n")
    assert kept(folder, "mine") == {"what": "1.2 ×"}
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
def test_the_epochs_of_a_trial_beside_a_bare_script(
    trials_s: tuple[float, ...], verdict: str
) -> None:
    text = fit_overhead.as_text(RIG, [Round(each, 1.0, 0.5) for each in trials_s])
    (ratio,) = (line for line in text.splitlines() if line.startswith("trial / bare:"))
    assert ratio.endswith(f"to reach: at most 1.03: {verdict}")


def test_the_bare_script_finds_what_it_takes_from_us() -> None:
    """It is a text that no type checker reads."""
    taken = [
        (each.module, name.name)
        for each in ast.walk(ast.parse(fit_overhead._BARE))
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("workloads")
        for name in each.names
    ]
    assert taken
    for module, name in taken:
        assert hasattr(importlib.import_module(module or ""), name)


@pytest.mark.parametrize(("share", "verdict"), [(0.004, "reached"), (0.01, "missed")])
def test_what_it_costs_to_watch(share: float, verdict: str) -> None:
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


def test_a_report_that_takes_longer_than_it_may_is_a_failure() -> None:
    good = reported(text=(4.9, 400), html=(14.0, 400), search=(60.0, 4000))
    assert report.missed(good) == []
    assert report.as_text(good).count("reached") == 2
    bad = reported(text=(5.1, 400), html=(14.0, 1025))
    assert report.missed(bad) == ["report, text", "report, html"]
    assert report.as_text(bad).count("missed") == 2


def test_coverages_are_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--rounds", "20", "--reports", "20", "--sweeps", "200", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["coverage", *few])
    coverage.main()
    said = capsys.readouterr().out
    found = kept(tmp_path, "coverage")
    assert (tmp_path / "coverage.txt").read_text() == said
    assert found["draws"] == {"rounds": 20, "reports": 20, "sweeps": 200}
    assert found["environment"]["rnnsweep"] == __version__
    by_name = {(each["turns"], each["wanted"]): each["coverage"] for each in found["rounds"]}
    assert by_name["independent", 0.02] > by_name["slow drift (0.98) beside noise", 0.02]
    assert {(each["blocks"], each["count"]) for each in found["reports"]} >= {
        ("one in ten half as slow again", 12),
        ("one in ten half as slow again", 40),
    }
    assert all(0.85 < each["coverage"] <= 1 for each in found["sweeps"])


def test_a_note_stays_with_the_run_that_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--only", "simulated", "--blocks", "4", "--seeds", "2", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["unlike_nodes", *few, "--note", "On a busy machine."])
    unlike_nodes.main()
    text = (tmp_path / "unlike_nodes.txt").read_text()
    assert text == capsys.readouterr().out.rstrip("\n") + "\n"
    assert "\n\nOn a busy machine.\n\nSimulated" in text
    assert kept(tmp_path, "unlike_nodes")["asked"]["note"] == "On a busy machine."
