"""Prices as a spec gives them, and what a trial then cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.criteria import HardwarePrice
from orchestrator.core.trial import FailureRecord, FinishedTrial, Outcome, Telemetry
from orchestrator.planning.pricing import price_of, priced, repriced, slot_s
from orchestrator.spec import Price, Problem, SpecError, parse_spec
from tests.building.hardware import build_cpu_use, build_gpu_use
from tests.building.specs import build_spec_text
from tests.building.trials import build_trial

ROOT = Path(__file__).resolve().parents[3]
T4 = Arm("tensorflow/cudnn", build_gpu_use("NVIDIA T4", "AMD EPYC", 8))
FOUR = build_cpu_use("AMD EPYC", 4)
WHO = {"source": "a bill", "date": "2026-11-21"}


def price(hardware: str = "*", **fields: Any) -> Price:
    return Price.model_validate({"hardware": hardware, **fields, **WHO})


class Cost(NamedTuple):
    """Fields of a price, metrics of a trial of an hour, and what it cost on which basis."""

    name: str
    fields: Mapping[str, Any]
    metrics: Mapping[str, float]
    costs: Mapping[str, float]
    basis: str


COSTS = [
    Cost(
        name="an hour",
        fields={"usd_per_hour": 2.0},
        metrics={"train_s": 900.0, "queue_s": 1000000.0},
        costs={"cost_usd": 2.0, "train_cost_usd": 0.5},
        basis="2 USD/h from setup to predict",
    ),
    Cost(
        name="no energy was measured",
        fields={"usd_per_kwh": 0.3},
        metrics={"train_s": 1.0},
        costs={},
        basis="no cost, as no energy was measured: 0.3 USD/kWh of the timed epochs",
    ),
    Cost(
        name="an hour and energy",
        fields={"usd_per_hour": 1.0, "usd_per_kwh": 0.3},
        metrics={"energy_j": 3600000.0, "train_s": 1800.0},
        costs={"cost_usd": 1.3, "train_cost_usd": 0.8},
        basis="1 USD/h from setup to predict and 0.3 USD/kWh of the timed epochs",
    ),
    Cost(
        name="the workload's own cost",
        fields={"usd_per_hour": 2.0},
        metrics={"cost_usd": 0.01},
        costs={"cost_usd": 0.01},
        basis="2 USD/h from setup to predict",
    ),
]


@pytest.mark.parametrize("case", COSTS, ids=lambda case: case.name)
def test_the_cost_of_an_hour_in_a_slot(case: Cost) -> None:
    telemetry = Telemetry(energy_scope="gpu", at_s=(1.0,), curves={"system/x": (2.0,)})
    outcome = Outcome("complete", 1e9, 1e9 + 3600.0, metrics=case.metrics, telemetry=telemetry)
    ended = priced(outcome, T4, [price(**case.fields)], [outcome])
    assert ended.metrics == pytest.approx({**case.metrics, **case.costs})
    assert ended.cost_basis == f"{case.basis} (a bill, 2026-11-21)"
    assert ended.telemetry == telemetry


def test_the_first_entry_that_means_the_hardware_counts() -> None:
    table = [
        price("NVIDIA H200", usd_per_hour=9.0),
        price("NVIDIA T4", usd_per_hour=1.0),
        price("gpu", usd_per_hour=2.0),
        price("AMD EPYC, 4 CPUs", usd_per_hour=3.0),
    ]
    threads = build_cpu_use("AMD EPYC", 4, Usage(threads=2))  # the whole node is reserved for it
    one = build_cpu_use("AMD EPYC", 1)
    prices = [
        price_of(use, table)
        for use in (T4.hardware, build_gpu_use("NVIDIA L4"), FOUR, threads, one)
    ]
    assert [entry and entry.usd_per_hour for entry in prices] == [1.0, 2.0, 3.0, 3.0, None]
    unpriced, lost = Outcome("complete", 5.0, 6.0), Outcome("failed", 5.0, 5.0)
    assert priced(unpriced, Arm("a/b", one), table, [unpriced]) is unpriced
    assert priced(lost, T4, table, [lost]) is lost, "an attempt that was lost has no cost of 0"


def test_the_table_that_we_give_is_one_with_its_sources() -> None:
    table = parse_spec(
        build_spec_text(prices="prices.yaml"), source="s", folder=ROOT / "sweeps"
    ).prices
    assert len(table) >= 5
    assert all("replace" in price.source or "EXAMPLE" in price.source for price in table)
    matched = price_of(T4.hardware, table)
    assert matched is not None
    assert matched.usd_per_hour == 0.526


def test_the_mistakes_of_a_prices_file_are_reported_at_their_lines(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "prices:\n"
        "- {hardware: 3, usd_per_hour: -1, source: a, date: 2026-11-21}\n"
        "- {hardware: cpu, usd_per_hours: 1, source: a, date: 2026-11-21}\n"
        "prcies: 3\n"
    )
    reported = [
        (problem.location.removeprefix(f"{tmp_path / 'p.yaml'}:"), problem.key)
        for problem in problems("p.yaml", tmp_path)
    ]
    assert reported == [
        ("2", "prices[0].hardware"),
        ("2", "prices[0].usd_per_hour"),
        ("3", "prices[1].usd_per_hours"),
        ("4", "prcies"),
    ]


def test_a_prices_file_is_found_in_the_folder_of_the_spec(tmp_path: Path) -> None:
    (missing,) = problems("nowhere.yaml", tmp_path)
    assert missing.location == str(tmp_path / "nowhere.yaml")
    assert "s.yaml:16" in missing.received
    (unnamed,) = problems("prices.yaml", None)
    assert unnamed.key == "prices"


def problems(prices: str, folder: Path | None) -> list[Problem]:
    with pytest.raises(SpecError) as refused:
        parse_spec(build_spec_text(prices=prices, repeats=0), source="s.yaml", folder=folder)
    return list(refused.value.problems)


def hour_long(block: int = 0, **changes: Any) -> FinishedTrial:
    return build_trial(block, T4, started_s=0.0, ended_s=3600.0, train_s=900.0, **changes)


def cheap(usd_per_hour: float) -> tuple[HardwarePrice, ...]:
    return (HardwarePrice("*", "a bill", "2026-11-21", usd_per_hour=usd_per_hour),)


def test_costs_of_finished_trials_follow_from_their_recorded_times() -> None:
    """Once without a price before, and then with another price; the same price changes nothing."""
    once = repriced([hour_long()], cheap(2.0))
    assert (once[0].metrics["cost_usd"], once[0].metrics["train_cost_usd"]) == (2.0, 0.5)
    assert once[0].cost_basis == "2 USD/h from setup to predict (a bill, 2026-11-21)"
    again = repriced(once, cheap(4.0))
    assert (again[0].metrics["cost_usd"], again[0].metrics["train_cost_usd"]) == (4.0, 1.0)
    assert repriced(again, cheap(4.0))[0] is again[0]
    assert repriced(again, ()) is again


def test_trials_that_took_turns_share_the_price_of_their_round() -> None:
    turns = [hour_long(block, round_id="12.3") for block in (0, 0, 1)]
    costs = [trial.metrics["cost_usd"] for trial in repriced(turns, cheap(2.0))]
    assert costs == [1.0, 1.0, 2.0]


def test_the_trials_of_a_round_pay_for_the_time_that_each_of_them_worked() -> None:
    """A failed one, of which that is not recorded, pays an equal part."""
    fast = Outcome("complete", 0.0, 1800.0, metrics={"train_s": 250.0, "compile_s": 50.0})
    slow = Outcome("complete", 10.0, 3600.0, metrics={"train_s": 900.0})
    failed = Outcome("failed", 20.0, 2000.0, failure=FailureRecord("hung", "no sign"))
    together = [fast, slow, failed]
    shares = [slot_s(outcome, together) for outcome in together]
    assert shares == pytest.approx([600.0, 1800.0, 1200.0])
    ended = priced(slow, T4, [price(usd_per_hour=2.0)], together, lost_s=900.0)
    assert ended.metrics["cost_usd"] == pytest.approx(1.5)


def test_the_basis_says_that_the_cost_of_lost_attempts_is_missing() -> None:
    (trial,) = repriced([hour_long(attempt=2)], cheap(2.0))
    assert trial.cost_basis is not None and trial.cost_basis.endswith("without its lost attempts")
