"""The machinery of the checks, with fake trainers instead of a GPU."""

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


def test_without_a_gpu_the_command_skips_all_checks(tmp_path: Path) -> None:
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
    written = json.loads(file.read_text())
    assert written["format"] == "rnnsweep-gpu-checks"
    assert [check["name"] for check in written["checks"]] == [expected.name for expected in CHECKS]
    assert {check["reason"] for check in written["checks"]} == {"NVML sees no NVIDIA GPU"}
    assert f"{len(CHECKS)} skipped" in done.stdout


def test_every_check_passes_if_requested_kernels_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)

    def answer(request: TrialRequest) -> Sequence[Event]:
        if request.workload.endswith(":race"):
            times_by_arm = {
                arm: {
                    "ran": parse_implementation(arm).kernel_text,
                    "step_ms": [1.0, 2.0],
                    "forward_ms": [1.0, 1.0],
                }
                for arm in request.settings["arms"]
            }
            return [Artifact("race.json", json.dumps(times_by_arm)), Result({})]
        return as_asked(request)

    for check in (proofs.options, proofs.fit, times.speed, times.predict, proofs.layout):
        for backend in ("tensorflow", "jax", "torch"):
            with lab_of(tmp_path, answer, backends=(backend,)) as lab:
                results = outcomes(check, lab)
            refused = [outcome for outcome in results if "refused" in outcome.expected]
            assert {outcome.status for outcome in results if outcome not in refused} <= {"passed"}
            assert {outcome.status for outcome in refused} <= {
                "failed"
            }  # the refusal was predicted but did not happen


def test_another_loss_than_that_of_the_portable_kernel_fails(tmp_path: Path) -> None:
    losses = iter([2.0, 2.0, 2.1])

    def answer(request: TrialRequest) -> Sequence[Event]:
        text = parse_implementation(request.implementation).kernel_text
        return [KernelProof(text, text, ""), Result({"loss": next(losses)})]

    with lab_of(tmp_path, answer) as lab:
        statuses = [(outcome.status, outcome.reason) for outcome in outcomes(proofs.fit, lab)]
    reason = "loss 2.100000 where portable has 2.000000"
    assert statuses == [("passed", ""), ("passed", ""), ("failed", reason)]


def test_an_undetected_fall_back_fails(tmp_path: Path) -> None:
    with lab_of(tmp_path) as lab:
        (outcome,) = outcomes(proofs.fall_backs, lab)
    assert (outcome.status, outcome.reason) == ("failed", "the fall-back was not detected")


@pytest.mark.parametrize(("ratio", "status"), [(15.5, "passed"), (12.3, "missed")])
def test_a_speed_up_below_its_target_is_missed(ratio: float, status: str, tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        times_by_arm = {
            arm: {
                "ran": parse_implementation(arm).kernel_text,
                "step_ms": [ratio if "portable" in arm else 1.0] * 3,
                "forward_ms": [1.0] * 3,
            }
            for arm in request.settings["arms"]
        }
        return [Artifact("race.json", json.dumps(times_by_arm)), Result({})]

    sizes = dataclasses.replace(QUICK, shapes=SHAPES[:1])
    with lab_of(tmp_path, answer, sizes=sizes) as lab:
        by_implementation = {
            outcome.implementation: outcome for outcome in outcomes(times.speed, lab)
        }
    assert by_implementation["tensorflow/cudnn"].status == status
    assert by_implementation["tensorflow/cudnn"].measured["step_ms portable/this"] == ratio
    assert (
        by_implementation["tensorflow/fused"].status
        == by_implementation["tensorflow/portable+xla"].status
        == "passed"
    )


def test_a_failed_arm_has_a_reason_and_the_others_count(tmp_path: Path) -> None:
    def answer(request: TrialRequest) -> Sequence[Event]:
        times_by_arm = {
            "tensorflow/portable": {"ran": "portable", "step_ms": [3.0], "forward_ms": [1.0]},
            "tensorflow/cudnn": {"failed": "ResourceExhaustedError: out of memory"},
            "tensorflow/fused": {"ran": "portable", "step_ms": [1.0], "forward_ms": [1.0]},
        }
        return [Artifact("race.json", json.dumps(times_by_arm)), Result({})]

    with lab_of(tmp_path, answer) as lab:
        reasons = {outcome.implementation: outcome.reason for outcome in outcomes(times.speed, lab)}
    assert reasons == {
        "tensorflow/portable": "",
        "tensorflow/cudnn": "ResourceExhaustedError: out of memory",
        "tensorflow/fused": "fused was requested, portable ran",
    }


def test_a_trainer_that_dies_is_replaced(tmp_path: Path) -> None:
    requested: list[str] = []

    def answer(request: TrialRequest) -> Sequence[Event] | None:
        requested.append(request.implementation)
        return None if request.implementation == "tensorflow/cudnn" else as_asked(request)

    with lab_of(tmp_path, answer) as lab:
        results = outcomes(proofs.fit, lab)
    assert [outcome.status for outcome in results] == ["passed", "failed", "passed"]
    assert "was ended by SIGKILL" in results[1].reason


def test_unavailable_backends_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.gpu.checks.is_installed", lambda package: package != "jax")

    def answer(request: TrialRequest) -> Sequence[Event]:
        if request.implementation.startswith("torch"):
            return [Environment({"torch": "2"}), Failure("not_possible", "it sees none")]
        return as_asked(request)

    checks = [Check(proofs.fit), Check(times.hand_written)]
    results = recorded(checks, lab_of(tmp_path, answer, backends=("tensorflow", "jax", "torch")))
    skipped = {(e.name, e.backend): e.reason for e in results if e.status == "skipped"}
    assert set(skipped) == {(c.name, backend) for c in checks for backend in ("jax", "torch")}
    assert skipped["fit", "jax"] == "jax is not available: pip install 'rnnsweep[jax]'"
    assert skipped["fit", "torch"] == "torch is not available: not_possible: it sees none"
    assert [e.status for e in results if e.backend == "tensorflow"] == ["passed"] * 3


def test_an_error_in_a_check_does_not_stop_the_others(tmp_path: Path) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def unimportable(lab: Lab, backend: str) -> Iterator[Outcome]:
        importlib.import_module("no_such_package")
        yield Outcome("unimportable", "first", "passed", backend)

    results = recorded(
        [Check(broken), Check(unimportable, timed=True), Check(proofs.fit)], lab_of(tmp_path)
    )
    assert [(outcome.name, outcome.status) for outcome in results[:3]] == [
        ("broken", "passed"),
        ("broken", "failed"),
        ("unimportable", "skipped"),
    ]
    assert "no such luck" in results[1].reason
    assert results[2].reason == "it needs no_such_package"
    assert {outcome.name for outcome in results[3:]} == {"fit"}


def test_checks_beyond_the_time_limit_are_skipped(tmp_path: Path) -> None:
    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        lab.expect_time()
        yield Outcome("slow", "first", "passed", backend)
        lab._until_s = time.monotonic() - 1
        lab.expect_time()

    results = recorded([Check(slow), Check(proofs.fit)], lab_of(tmp_path))
    assert [(outcome.name, outcome.status) for outcome in results] == [
        ("slow", "passed"),
        ("slow", "skipped"),
        ("fit", "skipped"),
    ]
    assert results[2].reason == "the time limit was reached: run again with --only fit"


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    file, hardware = tmp_path / "checks.json", {"gpus": ["H200"]}
    first = Record(file, hardware)
    first.versions["jax"] = {"jax": "0.10"}
    first.add(Outcome("fit", "a", "failed", "jax", "jax/cudnn", "why"))
    first.add(Outcome("fit", "b", "passed", measured={"ratio": 2.0, "rounds": [1, 2]}))
    first.took("fit", "jax", 1.25)
    second = Record(file, hardware)
    second.add(Outcome("fit", "a", "passed", "jax", "jax/cudnn"))
    third = Record(file, hardware)
    assert [(outcome.case, outcome.status) for outcome in third.outcomes] == [
        ("b", "passed"),
        ("a", "passed"),
    ]
    assert third.outcomes[0].measured == {"ratio": 2.0, "rounds": [1, 2]}
    assert (third.versions, third.seconds) == ({"jax": {"jax": "0.10"}}, {"fit jax": 1.2})
    assert third.as_text().splitlines()[-1] == "2 passed"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OtherHardware, match=r"expected .* of this machine .*choose another"):
        Record(file, {"gpus": ["T4"]})


def test_the_weights_of_a_gate_are_contiguous_in_the_buffer() -> None:
    for cell in CELLS:
        shape = StackShape(cell, 3, 4, 2, True)
        zeros = from_buffer(np.zeros(sum(shape.sizes), np.float32), shape)
        stack = probes._numbered(zeros)
        pieces = [probes._gate_by_gate(layer) for layer in stack]
        matrices = [np.ravel(m) for of_layer, _ in pieces for m in of_layer]
        biases = [bias for _, of_layer in pieces for bias in of_layer]
        assert np.array_equal(np.concatenate([*matrices, *biases]), to_buffer(stack))
