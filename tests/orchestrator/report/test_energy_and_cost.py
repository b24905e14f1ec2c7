"""Energy and cost in a report: grouped by scope and basis, and left out without either."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.brief import to_short_markdown
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_records import PORTABLE, paired, sweep, trial

GPU = Arm("tensorflow/cudnn", on_gpu("NVIDIA H200", "AMD EPYC", 16))


def drawn(arm: Arm, block: int, scope: str, energy_j: float, **more: Any) -> FinishedTrial:
    metrics = {"step_ms": 10.0, "energy_j": energy_j, "mean_power_w": energy_j / 10, **more}
    basis = "2 USD/h from setup to predict (a bill, 2026)"
    return trial(arm, block, metrics=metrics, energy_scope=scope, cost_basis=basis)


def section(trials: list[FinishedTrial], arms: tuple[Arm, ...]) -> str:
    """Return the section in Markdown, without escapes."""
    text = render(summarise(sweep(trials, arms)), "markdown")
    _, heading, after = text.partition("## Energy and cost")
    return (heading + after.partition("\n## ")[0]).replace("\\", "")


def test_energy_is_grouped_by_scope() -> None:
    trials = [drawn(PORTABLE, block, "cpu_package", 500.0 + block) for block in range(3)]
    trials += [drawn(GPU, block, "gpu", 2000.0, energy_per_sample_j=0.005) for block in range(2)]
    trials += [drawn(GPU, 2, "gpu+cpu_package", 2900.0)]
    markdown = section(trials, (PORTABLE, GPU))
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()
    ]
    scopes = ("cpu_package", "gpu", "gpu+cpu_package")
    assert [row[1:4] for row in cells if len(row) > 3 and row[1] in scopes] == [
        ["cpu_package", "3", "501.0 (500.5–501.5)"],
        ["gpu", "2", "2000 (2000–2000)"],
        ["gpu+cpu_package", "1", "2900"],
    ]
    assert "5.000 (5.000–5.000)" in markdown  # mJ a sample
    assert "Energies of different kinds are not comparable." in markdown


def test_cost_is_shown_with_its_basis() -> None:
    trials = [drawn(GPU, block, "gpu", 2000.0, cost_usd=0.02) for block in range(3)]
    markdown = section(trials, (GPU,))
    assert "2 USD/h from setup to predict (a bill, 2026)" in markdown
    assert "0.02" in markdown


def test_trials_without_energy_are_counted_with_a_reason() -> None:
    trials = [drawn(GPU, 0, "gpu", 2000.0)]
    reason = "the timed epochs took 3.0 s, less than the 10 s it takes"
    trials += [trial(GPU, block, energy_absent=reason) for block in (1, 2)]
    markdown = section(trials, (GPU,))
    assert f"Without energy: 2 trials. Reason of the first: {reason}." in markdown


def test_a_sweep_without_energy_and_prices_has_no_such_section() -> None:
    assert "Energy and cost" not in render(summarise(paired(3)), "text")
    unmeasured = [trial(PORTABLE, 0, energy_absent="no counter")]
    assert section(unmeasured, (PORTABLE,)) == ""


def test_rows_have_the_scope_of_an_energy_and_the_basis_of_a_cost() -> None:
    content = render(summarise(sweep([drawn(GPU, 0, "gpu", 2000.0)], (GPU,))), "csv")
    (row,) = csv.DictReader(StringIO(content))
    assert row["energy_scope"] == "gpu"
    assert row["cost_basis"].startswith("2 USD/h from setup")


BY_ENERGY = {"energy_j": "minimize"}


def flat(text: str) -> str:
    return " ".join(text.replace("\\", "").split())


def test_each_kind_of_energy_has_its_own_best() -> None:
    trials = [drawn(PORTABLE, 0, "cpu_package", 500.0), drawn(GPU, 0, "gpu", 400.0)]
    summary = summarise(sweep(trials, (PORTABLE, GPU), objectives=BY_ENERGY))
    best = (
        "best in energy_j (minimize) of 2 configs × arms, each kind of energy separately "
        f"(cpu_package and gpu): energy_j 500 of cpu_package, in block 0, {PORTABLE}; "
        f"energy_j 400 of gpu, in block 0, {GPU}"
    )
    assert best in flat(to_short_markdown(summary, 8000))
    report = flat(render(summary, "text"))
    assert best in report
    assert (
        "energy_j is measured in different ways here (cpu_package and gpu), which are not" in report
    )
    alike = [drawn(PORTABLE, 0, "gpu", 500.0), drawn(GPU, 0, "gpu", 400.0)]
    alike_report = flat(
        render(summarise(sweep(alike, (PORTABLE, GPU), objectives=BY_ENERGY)), "text")
    )
    assert f"configs × arms: energy_j 400, in block 0, {GPU}" in alike_report
    assert "in different ways" not in alike_report


def test_a_front_of_different_energies_is_noted_in_the_first_section() -> None:
    trials = [drawn(PORTABLE, 0, "cpu_package", 500.0), drawn(GPU, 0, "gpu", 400.0)]
    record = sweep(trials, (PORTABLE, GPU), objectives={**BY_ENERGY, "step_ms": "minimize"})
    assert (
        "Pareto-best in energy_j (minimize) and step_ms (minimize), each kind of energy separately "
        "(cpu_package and gpu): 2 of 2 configs × arms"
    ) in flat(to_short_markdown(summarise(record), 8000))
