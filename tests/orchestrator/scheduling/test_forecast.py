"""The rest of a sweep, simulated on its nodes and on other fleets."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration
from orchestrator.core.trial import Block, Config, FinishedTrial, Outcome, make_trial
from orchestrator.diagnostics.hardware_listing import hardware_json
from orchestrator.hardware import Node, classify
from orchestrator.planning.fleets import known_nodes, read_fleet
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.forecast import (
    FleetForecast,
    Forecast,
    Forecaster,
    simulate,
)
from orchestrator.scheduling.forecast_text import describe_forecast
from orchestrator.scheduling.remaining import remaining_work
from orchestrator.spec import SweepSpec
from orchestrator.storage import journal
from tests.building.hardware import build_gpu_use, build_node
from tests.building.scheduling import build_dispatcher, build_plan
from tests.building.specs import build_spec
from tests.building.trials import IDENTITY, build_full_trial, build_outcome

CONFIGS: list[Config] = [{"units": 8 + 4 * (7 * n % 30), "layers": 1 + n % 3} for n in range(30)]
PRICES = [{"hardware": "cpu", "usd_per_hour": 3.6, "source": "a list", "date": "2026-11-01"}]
SPACE = {"units": {"low": 8, "high": 128}, "layers": [1, 2, 3]}
HERE = [build_node("n0")]


@pytest.fixture(autouse=True)
def every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)


def seconds_of(config: Config, arm: Arm) -> float:
    speed = 1.0 if arm.implementation.startswith("torch") else 3.0
    speed /= 20 if arm.hardware_class.name.startswith("CPU B") else 1
    return speed * float(config["units"]) * float(config["layers"])


def run_before(
    blocks: int, nodes: list[Node], **changes: Any
) -> tuple[SweepSpec, journal.JournalState]:
    """Run some blocks of a sweep of 30 on two arms of each class."""
    usual = {"configs": 30, "space": SPACE, "prices": PRICES}
    arms = {"implementations": ["tensorflow/portable", "torch/portable"]}
    swept = build_spec(**{**usual, **arms, **changes})
    records: list[journal.Record] = [journal.SweepOpened(IDENTITY, {})]
    for index, config in enumerate(CONFIGS[:blocks]):
        records.append(journal.BlockSuggested(index, config, 0.0))
        for arm in make_plan(swept, classify(nodes)).arms:
            took = seconds_of(config, arm)
            metrics = {"energy_j": 50 * took, "setup_s": 25.0, "import_s": 5.0}
            outcome = Outcome("complete", 0.0, took, metrics=metrics)
            trial = make_trial(IDENTITY, Block(index, config), arm, 0)
            records.append(journal.TrialFinished(FinishedTrial(trial, outcome)))
    state = journal.replay(records)
    assert state is not None
    return swept, state


def fleets_after(
    blocks: int,
    texts: tuple[str, ...] = (),
    nodes: list[Node] = HERE,
    *,
    each_config: bool = False,
    **changes: Any,
) -> tuple[Forecast, list[FleetForecast]]:
    swept, state = run_before(blocks, nodes, **changes)
    work = remaining_work(swept, make_plan(swept, classify(HERE)), state, retry_failed=False)
    forecaster = Forecaster(swept, state)
    now = forecaster.forecast(work, each_config=each_config)
    return now, forecaster.fleets(texts, HERE)


def forecast_after(blocks: int, **changes: Any) -> Forecast:
    return fleets_after(blocks, **changes)[0]


def test_the_rest_is_predicted_in_time_energy_and_money() -> None:
    ahead = forecast_after(15)
    assert (ahead.done, ahead.remaining, ahead.model_error) == (30, 30, None)
    truth = sum(4 * float(config["units"]) * float(config["layers"]) for config in CONFIGS[15:])
    assert ahead.seconds is not None and ahead.energy_j is not None and ahead.usd is not None
    assert ahead.seconds.low < truth < ahead.seconds.high < 2 * truth
    in_trials_s = ahead.seconds.value - ahead.overhead_s
    assert ahead.energy_j.value == pytest.approx(50 * in_trials_s)
    assert ahead.usd.value == pytest.approx(ahead.seconds.value / 3600 * 3.6)
    text = describe_forecast(ahead)
    assert text.startswith("30 trials are done; the other 30 may take ")
    assert " kWh in their timed epochs" in text and " USD, " in text


def test_a_start_takes_longer_than_its_trials() -> None:
    """Two trainers start, each in 30 s as measured, unless those are part of each trial."""
    warm, fresh = forecast_after(15), forecast_after(15, trainer="fresh")
    assert warm.overhead_s - fresh.overhead_s == pytest.approx(60)
    assert fresh.overhead_s > 10
    assert f"of which {duration(warm.overhead_s)} to start" in describe_forecast(warm)


def test_known_configs_are_predicted_by_their_sizes() -> None:
    ahead = forecast_after(20, sampler=None, space=None, configs=CONFIGS, each_config=True)
    assert (ahead.done, ahead.remaining, len(ahead.expected)) == (40, 20, 20 * 6)
    hidden = [expectation for expectation in ahead.expected if expectation.target == "trial_s"]
    assert ahead.model_error is not None and ahead.model_error < 0.05
    assert ahead.seconds is not None
    truth = sum(seconds_of(expectation.config, expectation.arm) for expectation in hidden)
    assert ahead.seconds.value == pytest.approx(truth, rel=0.1)
    assert "off by " in describe_forecast(ahead)


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        pytest.param(0, "known once each arm has run a few trials", id="no trial"),
        pytest.param(1, "known once each arm has run a few trials", id="one trial of each arm"),
        pytest.param(30, "all 60 trials are done", id="every trial"),
    ],
)
def test_nothing_is_predicted_from_less_than_two_trials_or_of_a_finished_sweep(
    blocks: int, text: str
) -> None:
    ahead = forecast_after(blocks)
    assert (ahead.done, ahead.remaining, ahead.seconds) == (2 * blocks, 60 - 2 * blocks, None)
    assert describe_forecast(ahead, at_most=True).endswith(text)
    assert (ahead.overhead_s > 0) is (blocks < 30)


@pytest.mark.parametrize("prices", [None, [{**PRICES[0], "hardware": "NVIDIA T4"}]])
def test_few_trials_have_a_wide_interval_and_no_price_no_money(prices: Any) -> None:
    few, many = forecast_after(3, prices=prices), forecast_after(15)
    assert few.usd is None
    assert few.seconds is not None and many.seconds is not None
    width, narrow_width = ((s.high - s.low) / s.value for s in (few.seconds, many.seconds))
    assert width > 2 * narrow_width
    assert few.seconds.low >= 0


def test_nodes_share_the_work_and_classes_that_share_a_node_its_time() -> None:
    three, mixed = [build_node(f"n{number}") for number in range(3)], [build_node("a", gpus=1)]
    apart = [build_node("a"), build_node("b", cpu_model="CPU B")]
    for nodes, arms, lasts_s in ((three, 2, 20.0), (mixed, 1, 60.0), (apart, 1, 30.0)):
        blocks = build_dispatcher(build_plan(classify(nodes), implementations=arms))
        spans = simulate(blocks, lambda assignment: (10.0, [build_outcome()]))
        assert (len(spans), max(span.ended_s for span in spans)) == (6, lasts_s)


def test_more_nodes_take_less_time_and_cost_their_idle_time() -> None:
    now, (same, three) = fleets_after(10, ("1 x cpu", "3 x CPU A, 2 CPUs"))
    there = three.forecast
    assert now.seconds and there.seconds and there.usd
    assert (same.forecast, three.nodes) == (now, {"CPU A, 2 CPUs": 3})
    trials_s, shared_s = (
        seconds.value - ahead.overhead_s for ahead in (now, there) if (seconds := ahead.seconds)
    )
    assert trials_s / 3 < shared_s < trials_s / 2
    assert there.usd.value == pytest.approx(3 * there.seconds.value / 1000)
    assert 0.0 < there.idle["CPU A, 2 CPUs"] < 0.3
    text = describe_forecast(now, [three])
    assert f"with 3 x CPU A, 2 CPUs: {duration(there.seconds.value)} (" in text
    assert f" instead of {duration(now.seconds.value)} for 40 trials" in text


@pytest.mark.parametrize(
    ("search", "least", "most"),
    [({"sampler": "tpe", "open_blocks": 2}, 0.7, 1.0), ({"sampler": "random"}, 0.0, 0.2)],
)
def test_fast_nodes_wait_for_those_that_the_sampler_learns_from(
    search: dict[str, Any], least: float, most: float
) -> None:
    nodes, implementations = (
        [*HERE, build_node("fast", cpus=8, cpu_model="CPU B")],
        ["torch/portable"],
    )
    learned = {
        "objectives": {"val_accuracy": "maximize"},
        "implementations": implementations,
        **search,
    }
    _, (both,) = fleets_after(10, ("1 x CPU A*, 1 x CPU B*",), nodes, trainer="fresh", **learned)
    assert least <= both.forecast.waits["CPU B, 8 CPUs"] <= most


T4, TWO = build_node("gpu", cpus=8, gpus=2), build_node("two", cpus=4, cpu_model="CPU C")


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Return what fleets may be made of: a node with two GPUs, and CPUs A and B that had trials.

    The working directory has `lab.json`, of the node with two GPUs and one of CPU C.
    """
    monkeypatch.chdir(tmp_path)
    Path("lab.json").write_text(json.dumps(hardware_json(classify([T4, TWO]))))
    Path("old.json").write_text(json.dumps({"format": "rnnsweep-hardware", "version": 1}))
    _, state = run_before(1, [*HERE, build_node("other", cpu_model="CPU B")])
    return known_nodes([T4], state.finished.values())


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        pytest.param("2 x CPU A*", {"CPU A, 2 CPUs": 2}, id="a pattern"),
        pytest.param(
            "1 x CPU A, 2 CPUs, 3 × cpu b, 2 cpus",
            {"CPU A, 2 CPUs": 1, "CPU B, 2 CPUs": 3},
            id="two classes whose names have commas",
        ),
        pytest.param(
            "4 x NVIDIA T4",
            {"CPU A, 8 CPUs": 4, "NVIDIA T4 (CPU A, 8 CPUs)": 4},
            id="GPUs and the CPUs beside them",
        ),
        pytest.param(
            "lab.json",
            {"CPU C, 4 CPUs": 1, "CPU A, 8 CPUs": 1, "NVIDIA T4 (CPU A, 8 CPUs)": 1},
            id="a file",
        ),
        pytest.param(
            "1 x CPU B*, 2 x lab.json",
            {
                "CPU C, 4 CPUs": 2,
                "CPU A, 8 CPUs": 2,
                "CPU B, 2 CPUs": 1,
                "NVIDIA T4 (CPU A, 8 CPUs)": 2,
            },
            id="a class, and a file twice",
        ),
    ],
)
def test_a_fleet_is_numbers_of_classes_and_files(
    text: str, classes: dict[str, int], samples: list[Node]
) -> None:
    nodes = read_fleet(text, samples)
    assert len({node.id for node in nodes}) == len(nodes)
    assert {group.name: len(group.nodes) for group in classify(nodes)} == classes


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        pytest.param(
            "2 x NVIDIA T5",
            "expected a class that is here or has trials .*NVIDIA T4 .CPU A, 8 CPUs.*"
            "received 'NVIDIA T5'",
            id="an unknown class",
        ),
        pytest.param(
            "2 x cpu",
            "expected one class .*CPU A, 2 CPUs; CPU B, 2 CPUs.; received 'cpu'",
            id="several classes",
        ),
        pytest.param(
            "NVIDIA T4", "expected numbers of nodes, .* received 'NVIDIA T4'", id="no number"
        ),
        pytest.param("0 x NVIDIA T4", "expected numbers of nodes", id="no node"),
        pytest.param("20000 x NVIDIA T4", "at most 10,000", id="too many nodes"),
        pytest.param("", "expected numbers of nodes", id="nothing"),
        pytest.param(
            "old.json",
            "old.json: expected a listing of hardware of format 5, received format 1, from before",
            id="a file of a former format",
        ),
        pytest.param(
            "absent.json", "absent.json: expected a file of .* No such file", id="no file"
        ),
    ],
)
def test_a_fleet_of_unknown_classes_or_files_is_refused(
    text: str, refusal: str, samples: list[Node]
) -> None:
    with pytest.raises(Refusal, match=refusal):
        read_fleet(text, samples)


def test_a_node_is_known_again_from_its_trials() -> None:
    part = replace(T4, profile=replace(T4.profile, cpu_part="ARM 0x41 0xd40"))
    for hardware in (HERE[0], T4, TWO, part):
        same = Node.of_class(hardware.main_class, max(1, hardware.gpus))
        facts = [(n.main_class, n.main_class.name, n.cpu_class, n.gpus) for n in (hardware, same)]
        assert facts[0] == facts[1]


@pytest.mark.parametrize("name", ["NVIDIA T4", "Acme 1, 80 GB"])
def test_gpus_that_0_1_0_recorded_are_counted_by_their_name(name: str) -> None:
    arm = Arm("torch/fused", build_gpu_use(name))
    trial = build_full_trial(arm=arm, environment={"gpus": f"{name}, {name}"})
    (known,) = known_nodes([], [trial])
    assert (known.main_class, known.gpus) == (arm.hardware_class, 2)


def test_a_fleet_that_cannot_be_simulated_is_refused_with_what_to_do() -> None:
    with pytest.raises(Refusal, match=r"2 complete trials of each arm.* fewer of .* on CPU A, 2"):
        fleets_after(1, ("2 x CPU A*",))
    with pytest.raises(Refusal, match=r"first: rnnsweep run SPEC --set search.configs=5, there or"):
        fleets_after(1, ("2 x CPU A*",))
    listed: dict[str, Any] = {"sampler": None, "space": None, "configs": CONFIGS}
    with pytest.raises(Refusal, match=r"stop it after some trials: rnnsweep run SPEC, there or"):
        fleets_after(1, ("2 x CPU A*",), **listed)
    with pytest.raises(Refusal, match="no arm can run here"):
        fleets_after(5, ("1 x CPU A*",), hardware=["gpu"])
