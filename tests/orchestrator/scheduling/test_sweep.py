"""The phases of a sweep that need no Ray and MLflow: its checks and its end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from orchestrator.analysis.pairing.baseline import BaselineError
from orchestrator.cluster.autoscaler import NodeRequest
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.records import SweepRecord
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.trial import FinishedTrial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import AwaitedArm, Plan, make_plan
from orchestrator.scheduling.finish import finish_sweep
from orchestrator.scheduling.preflight import NothingToRun, expect_runnable
from orchestrator.scheduling.remaining import make_opening
from orchestrator.scheduling.sweep import RunOptions, run_sweep
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import Manifest, SweepOpening
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_records import paired
from tests.orchestrator.sample_specs import OWN, spec
from tests.orchestrator.sample_sweeps import IDENTITY

BASE = {
    **OWN,
    "name": "sweep",
    "implementations": ["python/a", "python/b"],
    "hardware": ["cpu", "gpu"],
}
SPEC = spec(BASE)
LARGER = spec(
    BASE,
    repeats=2,
    configs=5,
    space={"layers": [1, 2, 3, 4, 5]},
    implementations=["python/a", "python/b", "python/c"],
)
FIRST = replace(IDENTITY, name="sweep", generation=1)


def plan_of(checked: SweepSpec) -> Plan:
    return make_plan(checked, classify([node("a")]))


class Recording:
    """A recorder that notes what it is asked for and for how long."""

    refused = {"key": "too long"}  # noqa: RUF012

    def __init__(self) -> None:
        self.asked = SimpleNamespace()

    def drain(self, timeout_s: float) -> None:
        self.asked.drain_s = timeout_s

    def read(self, name: str, generation: int, *, timeout_s: float | None) -> SweepRecord:
        self.asked.read = (name, generation, timeout_s)
        return paired(2)

    def curves(self, run_ids: Sequence[str], *, timeout_s: float | None) -> dict[str, Any]:
        self.asked.curves = (tuple(run_ids), timeout_s)
        return {}

    def close(self, state: str, texts: Any, *, description: str, timeout_s: float) -> None:
        assert description
        self.asked.close = (state, sorted(texts), timeout_s)


@pytest.mark.parametrize("stopped", [None, Stopped()])
def test_the_generation_that_ran_is_read_back_in_bounded_time(stopped: Stopped | None) -> None:
    recorder = Recording()
    identity = replace(FIRST, generation=2)
    ended = finish_sweep(cast(Recorder, recorder), SPEC, identity, stopped)
    assert (ended.stopped, ended.refused) == (stopped, {"key": "too long"})
    assert ended.record.state == ("stopped" if stopped else "complete")
    assert recorder.asked.drain_s == (10 if stopped else 300)
    assert recorder.asked.read == ("sweep", 2, 30 if stopped else None)
    runs, limit_s = recorder.asked.curves
    assert runs
    assert limit_s == (30 if stopped else None)
    reports = ["report.html", "report.json", "report.md", "report.txt"]
    assert recorder.asked.close == (ended.record.state, reports, 10 if stopped else 60)


@pytest.mark.parametrize("baseline", ["python/a on gpu", "python/a on NVIDIA Imaginary"])
def test_a_baseline_that_cannot_run_is_refused_before_anything_runs(baseline: str) -> None:
    asked = spec(BASE, baseline=baseline)
    with pytest.raises(BaselineError, match=r"choose one of: python/a; python/b; python/a on CPU"):
        expect_runnable(asked, plan_of(asked))


def test_a_sampler_without_its_package_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = spec(BASE, sampler="gp", objectives={"loss": "minimize"})
    laid = plan_of(asked)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NothingToRun, match=r"gp needs torch.*rnnsweep\[gp\]"):
        expect_runnable(asked, laid)


def test_the_store_is_reported_the_whole_extent_of_a_sweep_that_was_larger(tmp_path: Path) -> None:
    larger = plan_of(LARGER)
    laid = plan_of(SPEC)
    first = manifest(LARGER, larger, FIRST, None, begun=True)
    second = manifest(SPEC, laid, FIRST, first, begun=True)
    assert (second.blocks, second.repeats) == (larger.blocks, larger.repeats) == (5, 2)
    assert set(second.arms) == set(larger.arms)
    assert (first.current, second.current) == (larger.arms, laid.arms)
    assert set(second.arms) - set(second.current) == {Arm("python/c", larger.arms[0].hardware)}
    fresh = manifest(SPEC, laid, replace(FIRST, generation=2), first)
    assert (fresh.blocks, fresh.repeats, fresh.arms) == (3, 1, laid.arms)


def test_while_arms_are_waited_for_nobody_has_left(tmp_path: Path) -> None:
    """The store names an arm by its class, which only the node shows."""
    laid = plan_of(SPEC)
    awaited = AwaitedArm(RequestedArm("python/a", "gpu"), SPEC.arms.hardware[1], 60.0)
    waiting = manifest(SPEC, replace(laid, awaited=(awaited,)), FIRST, None)
    assert (waiting.arms, waiting.current) == (laid.arms, ())


class Declined(Exception):
    """The user declined."""


class Opened:
    """A store that notes how a sweep was opened, and has what an earlier start left."""

    def __init__(self, stored_sweep: Manifest | None) -> None:
        self.stored_sweep = stored_sweep
        self.openings: list[Manifest] = []

    def __call__(self, *_: object) -> Opened:
        return self

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def find(self, name: str) -> Manifest | None:
        assert name == "sweep"
        return self.stored_sweep

    def latest_generation(self, name: str) -> int:
        return self.stored_sweep.identity.generation if self.stored_sweep else 0

    def open(self, opening: SweepOpening) -> list[FinishedTrial]:
        self.openings.append(opening.manifest)
        return []


@pytest.mark.parametrize("declines", [True, False])
def test_which_arms_a_sweep_has_changes_only_with_a_start_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declines: bool
) -> None:
    """The start before had a node with a GPU, and ran another implementation there."""
    here, there = node("a"), node("b", gpus=1)
    laid = make_plan(SPEC, classify([here, there]))
    identity = resume.identify(SPEC, 1)
    store = Opened(manifest(SPEC, laid, identity, None, begun=True))
    monkeypatch.setattr("orchestrator.scheduling.sweep.Recorder", store)
    monkeypatch.setattr("orchestrator.cluster.connection.this_machine", lambda: (here,))
    monkeypatch.setattr("orchestrator.scheduling.sweep._join", lambda *_: (here,))

    def confirm(plan: Plan, missing: int) -> None:
        assert missing == plan.trials
        if declines:
            raise Declined

    def view(plan: Plan) -> NoReturn:
        raise Declined  # it has begun: no need to run anything

    options = RunOptions(tmp_path, "sqlite://")
    with pytest.raises(Declined):
        run_sweep(SPEC, options, stop=StopSignal(lambda: None), view=view, confirm=confirm)
    ours = make_plan(SPEC, classify([here])).arms
    assert set(ours) < set(laid.arms)
    first, *others = store.openings
    assert (set(first.arms), set(first.running)) == (set(laid.arms), set(laid.arms))
    assert [other.running for other in others] == ([] if declines else [ours])
    assert all(set(other.arms) == set(laid.arms) for other in others)


WAITS = spec(BASE, hardware=["cpu", {"class": "*H200*", "labels": {"zone": "eu"}, "wait_s": 900}])


@pytest.mark.parametrize("ends", ["declined", "begun", "late"])
def test_a_sweep_that_waits_is_confirmed_once_and_before_it_asks_for_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    here = node("a")
    there = replace(node("b", gpus=1, gpu="NVIDIA H200"), labels={"zone": "eu"})
    store, events = Opened(None), list[Any]()
    nodes = (here,) if ends == "late" else (here, there)
    membership = SimpleNamespace(nodes=nodes, watching=contextlib.nullcontext)

    @contextlib.contextmanager
    def asked_for(requests: list[NodeRequest]) -> Iterator[None]:
        events.append(requests)
        yield

    def wait(*_: Any, **__: Any) -> tuple[Node, ...]:
        return nodes

    module = "orchestrator.scheduling.sweep"
    monkeypatch.setattr(f"{module}.Recorder", store)
    monkeypatch.setattr(f"{module}._join", lambda *_: (here,))
    monkeypatch.setattr(f"{module}.Membership", lambda _: membership)
    monkeypatch.setattr(f"{module}.wait_for_nodes", wait)
    monkeypatch.setattr(f"{module}.autoscaler.requested_nodes", asked_for)

    def confirm(plan: Plan, missing: int) -> None:
        assert (missing, plan.awaited_trials) == (6, 6)
        events.append("confirm")
        if ends == "declined":
            raise Declined

    def view(plan: Plan) -> NoReturn:
        events.append(plan)
        raise Declined  # it has begun: no need to run anything

    options = RunOptions(tmp_path, "sqlite://", "head:6379")
    with pytest.raises(Declined):
        run_sweep(WAITS, options, stop=StopSignal(lambda: None), view=view, confirm=confirm)
    if ends == "declined":
        assert (events, len(store.openings)) == (["confirm"], 1)
        return
    asked, requests, plan = events
    assert (asked, requests) == ("confirm", [({"CPU": 1.0, "GPU": 1.0}, {"zone": "eu"})])
    assert (len(plan.arms), len(plan.impossible)) == ((2, 2) if ends == "late" else (4, 0))
    _, begun = store.openings
    assert (begun.running, begun.impossible) == (plan.arms, plan.impossible)


def test_of_a_sweep_that_ends_by_itself_no_more_is_expected_than_it_needed(tmp_path: Path) -> None:
    auto = spec(BASE, configs=None, space={"layers": {"low": 1, "high": 99}}, blocks="auto")
    forty = replace(plan_of(SPEC), blocks=40)
    before = manifest(SPEC, forty, FIRST, None)
    now = manifest(auto, plan_of(auto).with_block_count(12), FIRST, before)
    assert (before.blocks, now.blocks) == (40, 12)
    assert manifest(SPEC, replace(forty, blocks=8), FIRST, now).blocks == 8


def manifest(*arguments: Any, **options: Any) -> Manifest:
    return make_opening(*arguments, **options).manifest
