"""The machinery of the checks, with fake trainers instead of a GPU."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.execution.trainer_process import TrainerGone
from orchestrator.hardware import probe
from tests.commands import python
from tests.gpu import proofs, times
from tests.gpu.checks import CHECKS, Check, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import OtherHardware, Outcome, Record
from tests.gpu.sizes import QUICK, SHAPES, Sizes
from workloads.implementations import parse_implementation
from workloads.protocol import Environment, Event, Failure, KernelProof, Result, TrialRequest

Answering = Callable[[TrialRequest], Sequence[Event] | None]


class Scripted:
    """A trainer without a process. An answer of None ends it."""

    def __init__(self, answer: Answering) -> None:
        self._answer, self._events = answer, list[Event]()
        self.alive = True

    def request(self, request: TrialRequest) -> None:
        events = self._answer(request)
        if events is None:
            raise TrainerGone(-9)
        self._events = list(events)

    def next_event(self, timeout_s: float) -> Event:
        return self._events.pop(0)

    def family(self) -> tuple[float, float]:
        return 0.0, 0.0

    def output_tail(self) -> str:
        return "the last output"

    def kill(self) -> None:
        self.alive = False

    close = kill


def as_asked(request: TrialRequest, **metrics: float) -> Sequence[Event]:
    """Answer that the requested kernel ran, in one millisecond per step."""
    text = parse_implementation(request.implementation).kernel_text
    result = Result({"step_ms": 1.0, "loss": 2.0, **metrics})
    return [KernelProof(text, text, "scripted"), result]


def lab_of(
    scratch: Path,
    answer: Answering = as_asked,
    backends: Sequence[str] = ("tensorflow",),
    sizes: Sizes = QUICK,
) -> Lab:
    def start(*asked: Any, **options: Any) -> Any:
        return Scripted(answer)

    return Lab("gpu", sizes, backends, scratch=scratch, start=start)


def outcomes(check: Check, lab: Lab) -> list[Outcome]:
    with lab:
        return list(check(lab, lab.backends[0]))


def recorded(checks: Sequence[Check], lab: Lab) -> list[Outcome]:
    record = Record(None, {})
    with lab:
        run_checks(checks, lab, record)
    return record.outcomes


def test_without_a_gpu_the_command_skips_all_checks(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    file = tmp_path / "folder" / "checks.json"
    done = python("-m", "tests.gpu", "--output", file).expect()
    written = json.loads(file.read_text())
    assert written["format"] == "rnnsweep-gpu-checks"
    assert [check["name"] for check in written["checks"]] == list(CHECKS)
    assert {check["reason"] for check in written["checks"]} == {"NVML sees no NVIDIA GPU"}
    assert f"{len(CHECKS)} skipped" in done.out


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("check", [proofs.evidence, proofs.fit, times.speed, times.predict])
def test_every_check_passes_if_requested_kernels_run(
    check: Any, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    for outcome in outcomes(check, lab_of(tmp_path, backends=(backend,))):
        # A refusal that was predicted did not happen.
        assert outcome.status == ("failed" if "refused" in outcome.expected else "passed")


def test_a_trial_that_is_not_as_expected_fails(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event] | None:
        kernel = parse_implementation(request.implementation).kernel
        return (
            None if kernel == "cudnn" else as_asked(request, loss=2.1 if kernel == "fused" else 2)
        )

    portable, ended, other_loss = outcomes(proofs.fit, lab_of(tmp_path, answer))
    assert (portable.status, ended.status, other_loss.status) == ("passed", "failed", "failed")
    assert "was ended by SIGKILL" in ended.reason
    assert other_loss.reason == "loss 2.100000 where portable has 2.000000"
    (outcome,) = outcomes(proofs.fall_backs, lab_of(tmp_path))
    assert (outcome.status, outcome.reason) == ("failed", "the fall-back was not detected")


def test_a_speed_up_below_its_target_is_missed(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        arm = request.implementation
        if arm == "tensorflow/fused":
            return [KernelProof("fused", "portable", "While × 2"), Result({"step_ms": 1.0})]
        return as_asked(request, step_ms=ratio if "portable" in arm else 1.0)

    for ratio, status in ((15.5, "passed"), (12.3, "missed")):
        lab = lab_of(tmp_path, answer, sizes=dataclasses.replace(QUICK, shapes=SHAPES[:1]))
        results = {outcome.implementation: outcome for outcome in outcomes(times.speed, lab)}
        cudnn, fused = results["tensorflow/cudnn"], results["tensorflow/fused"]
        assert (cudnn.status, cudnn.measured["step_ms portable/this"]) == (status, ratio)
        assert fused.reason == "ran portable, not fused (While × 2)"
        portable = (results["tensorflow/portable"], results["tensorflow/portable+xla"])
        assert {outcome.status for outcome in portable} == {"passed"}


def test_unavailable_backends_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.gpu.checks.is_installed", lambda package: package != "jax")

    def answer(request: TrialRequest) -> Sequence[Event]:
        if request.implementation.startswith("torch"):
            return [Environment({"torch": "2"}), Failure("not_possible", "it sees none")]
        return as_asked(request)

    checks = [proofs.fit, times.predict]
    results = recorded(checks, lab_of(tmp_path, answer, ("tensorflow", "jax", "torch")))
    skipped = {(e.name, e.backend): e.reason for e in results if e.status == "skipped"}
    assert set(skipped) == {(c.__name__, backend) for c in checks for backend in ("jax", "torch")}
    assert skipped["fit", "jax"] == "jax is not available: pip install 'rnnsweep[jax]'"
    assert skipped["fit", "torch"] == "torch is not available: it sees none"
    assert [e.status for e in results if e.backend == "tensorflow"] == ["passed"] * 6


def test_errors_and_the_time_limit_end_one_check_only(tmp_path: Path) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def unimportable(lab: Lab, backend: str) -> Iterator[Outcome]:
        importlib.import_module("no_such_package")
        yield Outcome("unimportable", "first", "passed", backend)

    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("slow", "first", "passed", backend)
        lab.until_s = 0

    checks = [broken, unimportable, slow, proofs.fit]
    results = recorded(checks, lab_of(tmp_path))
    assert [(outcome.name, outcome.status) for outcome in results] == [
        ("broken", "passed"),
        ("broken", "failed"),
        ("unimportable", "skipped"),
        ("slow", "passed"),
        ("fit", "skipped"),
    ]
    assert "no such luck" in results[1].reason
    assert results[2].reason == "it needs no_such_package"
    assert results[4].reason == "the time limit was reached: run again with --only fit"


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    file, hardware = tmp_path / "checks.json", {"gpus": ["H200"]}
    first = Record(file, hardware)
    first.versions["jax"] = {"jax": "0.10"}
    first.add(Outcome("fit", "a", "failed", "jax", "jax/cudnn", "why"))
    first.add(Outcome("fit", "b", "passed", measured={"ratio": 2.0, "rounds": [1, 2]}))
    second = Record(file, hardware)
    second.add(Outcome("fit", "a", "passed", "jax", "jax/cudnn"))
    third = Record(file, hardware)
    assert [(e.case, e.status) for e in third.outcomes] == [("b", "passed"), ("a", "passed")]
    assert third.outcomes[0].measured == {"ratio": 2.0, "rounds": [1, 2]}
    assert third.versions == {"jax": {"jax": "0.10"}}
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OtherHardware, match="choose another"):
        Record(file, {"gpus": ["T4"]})
