"""Prices as a spec gives them, and what a trial then cost."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.trial import Outcome, Telemetry
from orchestrator.planning.pricing import describe_prices, price_of, priced
from orchestrator.spec import Price, Problem, SpecError, parse_spec
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_specs import spec_text

ROOT = Path(__file__).resolve().parents[3]
ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("plans.yaml").read_text())
T4 = Arm("tensorflow/cudnn", on_gpu("NVIDIA T4", "AMD EPYC", 8))
FOUR = on_cpu("AMD EPYC", 4)
WHO = {"source": "a bill", "date": "2026-11-21"}


def price(hardware: str = "*", **fields: Any) -> Price:
    return Price.model_validate({"hardware": hardware, **fields, **WHO})


@pytest.mark.parametrize(("fields", "metrics", "costs", "basis"), ROWS["costs"])
def test_the_cost_of_an_hour_in_a_slot(
    fields: tuple[Any, ...],
    metrics: dict[str, float],
    costs: tuple[float | None, float | None],
    basis: str,
) -> None:
    telemetry = Telemetry(energy_scope="gpu", at_s=(1.0,), curves={"system/x": (2.0,)})
    outcome = Outcome("complete", 1e9, 1e9 + 3600.0, metrics=metrics, telemetry=telemetry)
    names = ("usd_per_hour", "usd_per_kwh", "gpus")
    ended = priced(outcome, T4, [price(**dict(zip(names, fields, strict=False)))], [outcome])
    paid = {"cost_usd": costs[0], "train_cost_usd": costs[1]}
    costs_paid = {name: cost for name, cost in paid.items() if cost}
    assert ended.metrics == pytest.approx({**metrics, **costs_paid})
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
    table = parse_spec(spec_text(prices="prices.yaml"), source="s", folder=ROOT / "sweeps").prices
    assert len(table) >= 5
    assert all("replace" in price.source or "EXAMPLE" in price.source for price in table)
    matched = price_of(T4.hardware, table)
    assert matched is not None
    assert matched.usd_per_hour == 0.526


@pytest.mark.parametrize(("text", "places"), ROWS["files"])
def test_the_mistakes_of_a_prices_file_are_reported_at_their_lines(
    tmp_path: Path, text: str, places: str
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    prefix = f"{tmp_path / 'p.yaml'}:"
    reported = [
        f"{one.place.removeprefix(prefix)} {one.key}" for one in problems("p.yaml", tmp_path)
    ]
    assert ", ".join(reported) == places


def test_a_prices_file_is_found_in_the_folder_of_the_spec(tmp_path: Path) -> None:
    (missing,) = problems("nowhere.yaml", tmp_path)
    assert missing.place == str(tmp_path / "nowhere.yaml")
    assert "a file of prices, which s.yaml:16 names" in missing.expected
    (unnamed,) = problems("prices.yaml", None)
    assert "needs a spec that is a file" in unnamed.expected


def problems(prices: str, folder: Path | None) -> list[Problem]:
    with pytest.raises(SpecError) as refused:
        parse_spec(spec_text(prices=prices, repeats=0), source="s.yaml", folder=folder)
    return list(refused.value.problems)
