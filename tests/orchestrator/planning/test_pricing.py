"""Prices as a spec gives them, and what a trial then cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.trial import Outcome, Telemetry
from orchestrator.planning.pricing import describe_prices, price_of, priced
from orchestrator.spec import Price, SpecError, parse
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_specs import spec, spec_text

ROOT = Path(__file__).resolve().parents[3]
T4 = Arm("tensorflow/cudnn", on_gpu("NVIDIA T4", "AMD EPYC", 8))
FOUR = on_cpu("AMD EPYC", 4)
WHO = {"source": "a bill", "date": "2026-11-21"}


def price(hardware: str = "*", **fields: Any) -> Price:
    return Price.model_validate({"hardware": hardware, **fields, **WHO})


@pytest.mark.parametrize(
    ("fields", "metrics", "costs", "basis"),
    [
        (
            {"usd_per_hour": 2.0},
            {"train_s": 900.0, "queue_s": 1e6},
            {"cost_usd": 2.0, "train_cost_usd": 0.5},
            "2 USD/h from setup to predict",
        ),
        (
            {"usd_per_hour": 32.0, "gpus": 8},
            {},
            {"cost_usd": 4.0},
            "32 USD/h / 8 GPUs from setup to predict",
        ),
        (
            {"usd_per_kwh": 0.3},
            {"energy_j": 7.2e6},
            {"cost_usd": 0.6},
            "0.3 USD/kWh of the timed epochs",
        ),
        (
            {"usd_per_kwh": 0.3},
            {"train_s": 1.0},
            {},
            "no cost, as no energy was measured: 0.3 USD/kWh of the timed epochs",
        ),
        (
            {"usd_per_hour": 1.0, "usd_per_kwh": 0.3},
            {"energy_j": 3.6e6, "train_s": 1800.0},
            {"cost_usd": 1.3, "train_cost_usd": 0.8},
            "1 USD/h from setup to predict and 0.3 USD/kWh of the timed epochs",
        ),
        (
            {"usd_per_hour": 2.0},
            {"cost_usd": 0.01},  # the workload's own
            {"cost_usd": 0.01},
            "2 USD/h from setup to predict",
        ),
    ],
)
def test_the_cost_of_an_hour_in_a_slot(
    fields: dict[str, Any], metrics: dict[str, float], costs: dict[str, float], basis: str
) -> None:
    telemetry = Telemetry(energy_scope="gpu", at_s=(1.0,), curves={"system/x": (2.0,)})
    outcome = Outcome("complete", 1e9, 1e9 + 3600.0, metrics=metrics, telemetry=telemetry)
    ended = priced(outcome, T4, [price(**fields)], [outcome])
    assert ended.metrics == pytest.approx({**metrics, **costs})
    assert ended.cost_basis == f"{basis} (a bill, 2026-11-21)"
    assert ended.telemetry == telemetry


def test_trials_that_took_turns_share_their_round_and_show_so() -> None:
    both = (Outcome("complete", 1e9, 1e9 + 3600.0), Outcome("complete", 1e9 + 600.0, 1e9 + 3660.0))
    ended = [priced(one, T4, [price(usd_per_hour=2.0)], both) for one in both]
    assert [one.metrics["cost_usd"] for one in ended] == [pytest.approx(2.0 * 3660 / 3600 / 2)] * 2
    assert ended[0].cost_basis == "2 USD/h of a round, shared by 2 trials (a bill, 2026-11-21)"


def test_the_first_entry_that_means_the_hardware_counts() -> None:
    table = [
        price("NVIDIA H200", usd_per_hour=9.0),
        price("NVIDIA T4", usd_per_hour=1.0),
        price("gpu", usd_per_hour=2.0),
        price("AMD EPYC, 4 CPUs", usd_per_hour=3.0),
    ]
    threads = on_cpu("AMD EPYC", 4, Usage(threads=2))  # the whole node is reserved for it
    one = on_cpu("AMD EPYC", 1)
    prices = [
        price_of(use, table) for use in (T4.hardware, on_gpu("NVIDIA L4"), FOUR, threads, one)
    ]
    assert [entry and entry.usd_per_hour for entry in prices] == [1.0, 2.0, 3.0, 3.0, None]
    unpriced, lost = Outcome("complete", 5.0, 6.0), Outcome("failed", 5.0, 5.0)
    assert priced(unpriced, Arm("a/b", one), table, [unpriced]) is unpriced
    assert priced(lost, T4, table, [lost]) is lost, "an attempt that was lost has no cost of 0"


def test_a_plan_shows_which_hardware_has_a_price() -> None:
    table = [price("NVIDIA T4", usd_per_hour=8.0, gpus=4, usd_per_kwh=0.25)]
    assert describe_prices(table, [T4.hardware, FOUR, T4.hardware]) == [
        f"  costs  {T4.hardware}: 8 USD/h / 4 GPUs from setup to predict and 0.25 USD/kWh of the"
        " timed epochs (a bill, 2026-11-21)",
        "  costs  AMD EPYC, 4 CPUs: no price in the spec, so no cost",
    ]
    assert describe_prices((), [T4.hardware]) == []


def test_the_table_that_we_give_is_one_with_its_sources() -> None:
    table = parse(spec_text(prices="prices.yaml"), source="s", folder=ROOT / "sweeps").prices
    assert len(table) >= 5
    assert all("replace" in price.source or "EXAMPLE" in price.source for price in table)
    matched = price_of(T4.hardware, table)
    assert matched is not None
    assert matched.usd_per_hour == 0.526


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nowhere.yaml", "nowhere.yaml: expected a file of prices, which s.yaml:16 names; rec"),
        (3, "s.yaml:16: prices: expected a list; received 3"),
        ([{"hardware": "cpu", **WHO}], "usd_per_hour, usd_per_kwh, or both"),
        ([{"hardware": "cpu", "usd_per_hour": 1, "date": "2026-11-21"}], "prices[0].source: exp"),
        ([{"hardware": "cpu", "usd_per_hour": 0, **WHO}], "usd_per_hour: expected more than 0"),
        (
            [{"hardware": "cpu", "usd_per_hour": 1, "source": "a", "date": "last year"}],
            "prices[0].date: expected the day of the price, such as 2026-11-21; received 'last",
        ),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, written: Any, expected: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(spec_text(prices=written), source="s.yaml", folder=tmp_path)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "prices:\n"
            "- {hardware: 3, usd_per_hour: -1, source: a, date: 2026-11-21}\n"
            "- {hardware: cpu, usd_per_hours: 1, source: a, date: 2026-11-21}\n"
            "prcies: 3\n",
            "2 prices[0].hardware, 2 prices[0].usd_per_hour, 3 prices[1].usd_per_hours, 4 prcies",
        ),
        ("", "1 "),
        ("prices:\n", "1 prices"),
        ("prices: {hardware: cpu}\n", "1 prices"),
        ("a: 3\n", "1 a, 1 prices"),
    ],
)
def test_the_mistakes_of_a_prices_file_are_reported_at_their_lines(
    tmp_path: Path, text: str, places: str
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(SpecError) as refused:
        parse(spec_text(prices="p.yaml", repeats=0), source="s.yaml", folder=tmp_path)
    prefix = f"{tmp_path / 'p.yaml'}:"
    reported = [f"{one.place.removeprefix(prefix)} {one.key}" for one in refused.value.problems]
    assert ", ".join(reported) == places


def test_a_name_needs_a_spec_that_is_a_file() -> None:
    with pytest.raises(SpecError, match="needs a spec that is a file"):
        spec(prices="prices.yaml")


def test_a_cost_can_be_an_objective_only_with_prices() -> None:
    with pytest.raises(SpecError, match=r"cost_usd: expected prices as well"):
        spec(objectives={"cost_usd": "minimize"})
    table = [{"hardware": "cpu", "usd_per_hour": 1, **WHO}]
    assert spec(objectives={"cost_usd": "minimize", "energy_j": "minimize"}, prices=table)
