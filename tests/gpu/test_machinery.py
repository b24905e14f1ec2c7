"""The checks' own machinery, with doubles where a GPU is."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from orchestrator.hardware import probe
from tests.gpu import probes, proofs, times
from tests.gpu.checks import CHECKS, Check, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import OtherHardware, Outcome, Record
from tests.gpu.scripted import as_asked, lab_of
from tests.gpu.sizes import CELLS, QUICK, SHAPES
from workloads.implementations import parse_implementation
from workloads.models.canonical_weights import StackShape, from_buffer, to_buffer
from workloads.protocol import (
    Artifact,
    Device,
    Environment,
    Event,
    Failure,
    KernelProof,
    Result,
    TrialRequest,
)

Answering = Callable[[TrialRequest], Sequence[Event] | None]


def outcomes(check: Callable[[Lab, str], Iterator[Outcome]], lab: Lab) -> list[Outcome]:
    return list(check(lab, lab.backends[0]))


def recorded(checks: Sequence[Check], lab: Lab) -> list[Outcome]:
    record = Record(None, {})
    with lab:
        run_checks(checks, lab, record)
    return record.outcomes


def test_the_command_skips_all_where_there_is_no_gpu(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    file = tmp_path / "folder" / "checks.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--output", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads(file.read_text())
    assert kept["format"] == "rnnsweep-gpu-checks"
    assert [each["name"] for each in kept["checks"]] == [check.name for check in CHECKS]
    assert {each["reason"] for each in kept["checks"]} == {"NVML sees no NVIDIA GPU"}
    assert f"{len(CHECKS)} skipped" in done.stdout


def test_every_check_passes_where_all_is_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)

    def answer(request: TrialRequest) -> Sequence[Event]:
        if request.workload.endswith(":race"):
            told = {
                arm: {
                    "ran": parse_implementation(arm).kernel_text,
                    "step_ms": [1.0, 2.0],
                    "forward_ms": [1.0, 1.0],
                }
                for arm in request.settings["arms"]
            }
            return [Artifact("race.json", json.dumps(told)), Result({})]
        return as_asked(request)

    for check in (proofs.options, proofs.fit, times.speed, times.predict, proofs.layout):
        for backend in ("tensorflow", "jax", "torch"):
            with lab_of(tmp_path, answer, backends=(backend,)) as lab:
                found = outcomes(check, lab)
            refused = [each for each in found if "refused" in each.expected]
            assert {each.status for each in found if each not in refused} <= {"passed"}
            assert {each.status for each in refused} <= {"failed"}  # it was not refused


def test_another_kernel_than_was_asked_for_fails(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        return [KernelProof("cudnn", "portable", "While × 2"), Result({"loss": 1.0})]

    with lab_of(tmp_path, answer) as lab:
        found = {each.implementation: each for each in outcomes(proofs.fit, lab)}
    assert found["tensorflow/portable"].status == "passed"
    assert found["tensorflow/cudnn"].status == "failed"
    assert found["tensorflow/cudnn"].reason == "asked for cudnn; portable ran"


def test_another_loss_than_the_portable_ones_fails(tmp_path: Path) -> None:
    losses = iter([2.0, 2.0, 2.1])

    def answer(request: TrialRequest) -> Sequence[Event]:
        text = parse_implementation(request.implementation).kernel_text
        return [KernelProof(text, text, ""), Result({"loss": next(losses)})]

    with lab_of(tmp_path, answer) as lab:
        statuses = [(each.status, each.reason) for each in outcomes(proofs.fit, lab)]
    reason = "loss 2.100000 where portable has 2.000000"
    assert statuses == [("passed", ""), ("passed", ""), ("failed", reason)]


def test_a_fall_back_that_nobody_notices_fails(tmp_path: Path) -> None:
    with lab_of(tmp_path) as lab:
        (found,) = outcomes(proofs.fall_backs, lab)
    assert (found.status, found.reason) == ("failed", "the fall-back was not noticed")


def test_numbers_beyond_their_tolerance_fail(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        return [Result({"outputs": 1e-7, "by_bias": 1e-3, "load_s": 5.0})]

    with lab_of(tmp_path, answer) as lab:
        found = outcomes(proofs.numbers, lab)
        rough = outcomes(proofs.precisions, lab)
    assert {each.reason for each in found} == {"beyond 2e-05: by_bias"}
    assert {each.status for each in rough} == {"passed"}
    assert all(
        "fused" in e.implementation or "padded" not in e.case for e in found if "rnn" in e.case
    )


@pytest.mark.parametrize(("ratio", "status"), [(15.5, "passed"), (12.3, "missed")])
def test_a_speed_up_that_is_not_reached_is_missed(
    ratio: float, status: str, tmp_path: Path
) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        told = {
            arm: {
                "ran": parse_implementation(arm).kernel_text,
                "step_ms": [ratio if "portable" in arm else 1.0] * 3,
                "forward_ms": [1.0] * 3,
            }
            for arm in request.settings["arms"]
        }
        return [Artifact("race.json", json.dumps(told)), Result({})]

    sizes = dataclasses.replace(QUICK, shapes=SHAPES[:1])
    with lab_of(tmp_path, answer, sizes=sizes) as lab:
        found = {each.implementation: each for each in outcomes(times.speed, lab)}
    assert found["tensorflow/cudnn"].status == status
    assert found["tensorflow/cudnn"].measured["step_ms portable/this"] == ratio
    assert found["tensorflow/fused"].status == found["tensorflow/portable+xla"].status == "passed"


def test_an_arm_that_fails_says_why_and_the_others_count(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        told = {
            "tensorflow/portable": {"ran": "portable", "step_ms": [3.0], "forward_ms": [1.0]},
            "tensorflow/cudnn": {"failed": "ResourceExhaustedError: out of memory"},
            "tensorflow/fused": {"ran": "portable", "step_ms": [1.0], "forward_ms": [1.0]},
        }
        return [Artifact("race.json", json.dumps(told)), Result({})]

    with lab_of(tmp_path, answer) as lab:
        found = {each.implementation: each.reason for each in outcomes(times.speed, lab)}
    assert found == {
        "tensorflow/portable": "",
        "tensorflow/cudnn": "ResourceExhaustedError: out of memory",
        "tensorflow/fused": "asked for fused; portable ran",
    }


def test_a_trainer_that_dies_is_replaced(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: TrialRequest) -> Sequence[Event] | None:
        asked.append(request.implementation)
        return None if request.implementation == "tensorflow/cudnn" else as_asked(request)

    with lab_of(tmp_path, answer) as lab:
        found = outcomes(proofs.fit, lab)
    assert [each.status for each in found] == ["passed", "failed", "passed"]
    assert "was ended by SIGKILL" in found[1].reason


def test_a_trainer_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    sizes = dataclasses.replace(QUICK, trial_limit_s=0.0)
    with lab_of(tmp_path, lambda request: [], sizes=sizes) as lab:
        answer = lab.ask(lab.request("synthetic", "tensorflow/cudnn"))
    assert answer.why == "error: no answer within 0 s: ended"


def test_backends_that_are_not_there_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.gpu.checks.is_installed", lambda package: package != "jax")

    def answer(request: TrialRequest) -> Sequence[Event]:
        if request.implementation.startswith("torch"):
            return [Environment({"torch": "2"}), Failure("not_possible", "it sees none")]
        return as_asked(request)

    checks = [Check(proofs.fit), Check(times.hand_written)]
    found = recorded(checks, lab_of(tmp_path, answer, backends=("tensorflow", "jax", "torch")))
    skipped = {(e.name, e.backend): e.reason for e in found if e.status == "skipped"}
    assert set(skipped) == {(c.name, backend) for c in checks for backend in ("jax", "torch")}
    assert skipped["fit", "jax"] == "jax is not there: pip install 'rnnsweep[jax]'"
    assert skipped["fit", "torch"] == "torch is not there: not_possible: it sees none"
    assert [e.status for e in found if e.backend == "tensorflow"] == ["passed"] * 3


def test_whatever_happens_to_a_check_the_others_go_on(tmp_path: Path) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def lacking(lab: Lab, backend: str) -> Iterator[Outcome]:
        importlib.import_module("no_such_package")
        yield Outcome("lacking", "first", "passed", backend)

    found = recorded(
        [Check(broken), Check(lacking, timed=True), Check(proofs.fit)], lab_of(tmp_path)
    )
    assert [(each.name, each.status) for each in found[:3]] == [
        ("broken", "passed"),
        ("broken", "failed"),
        ("lacking", "skipped"),
    ]
    assert "no such luck" in found[1].reason
    assert found[2].reason == "it needs no_such_package"
    assert {each.name for each in found[3:]} == {"fit"}


def test_checks_for_which_no_time_is_left_are_skipped(tmp_path: Path) -> None:
    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        lab.expect_time()
        yield Outcome("slow", "first", "passed", backend)
        lab._until_s = time.monotonic() - 1
        lab.expect_time()

    found = recorded([Check(slow), Check(proofs.fit)], lab_of(tmp_path))
    assert [(each.name, each.status) for each in found] == [
        ("slow", "passed"),
        ("slow", "skipped"),
        ("fit", "skipped"),
    ]
    assert found[2].reason == "no time was left: run again with --only fit"


def test_a_file_is_gone_on_with(tmp_path: Path) -> None:
    file, hardware = tmp_path / "checks.json", {"gpus": ["H200"]}
    first = Record(file, hardware)
    first.versions["jax"] = {"jax": "0.10"}
    first.add(Outcome("fit", "a", "failed", "jax", "jax/cudnn", "why"))
    first.add(Outcome("fit", "b", "passed", measured={"ratio": 2.0, "rounds": [1, 2]}))
    first.took("fit", "jax", 1.25)
    second = Record(file, hardware)
    second.add(Outcome("fit", "a", "passed", "jax", "jax/cudnn"))
    third = Record(file, hardware)
    assert [(each.case, each.status) for each in third.outcomes] == [
        ("b", "passed"),
        ("a", "passed"),
    ]
    assert third.outcomes[0].measured == {"ratio": 2.0, "rounds": [1, 2]}
    assert (third.versions, third.seconds) == ({"jax": {"jax": "0.10"}}, {"fit jax": 1.2})
    assert third.as_text().splitlines()[-1] == "2 passed"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OtherHardware, match=r"expected .* of this machine .*choose another"):
        Record(file, {"gpus": ["T4"]})


def test_the_weights_of_a_gate_stand_in_the_buffer_one_after_another() -> None:
    for cell in CELLS:
        shape = StackShape(cell, 3, 4, 2, True)
        zeros = from_buffer(np.zeros(sum(shape.sizes), np.float32), shape)
        stack = probes._numbered(zeros)
        pieces = [probes._gate_by_gate(layer) for layer in stack]
        matrices = [np.ravel(m) for each, _ in pieces for m in each]
        biases = [bias for _, each in pieces for bias in each]
        assert np.array_equal(np.concatenate([*matrices, *biases]), to_buffer(stack))


def test_a_device_is_one_of_two(tmp_path: Path) -> None:
    devices: tuple[Device, ...] = ("cpu", "gpu")
    for device in devices:
        with lab_of(tmp_path, device=device) as lab:
            assert lab.request("probes:numbers", "torch/fused").device == device
            assert lab.request("probes:numbers", "x/y").workload == "tests.gpu.probes:numbers"
            assert lab.request("synthetic", "x/y", device="cpu").device == "cpu"
