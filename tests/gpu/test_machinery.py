"""The machinery of the checks, with answers instead of a GPU."""

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.diagnostics.trainer_answers import TrainerAnswer
from orchestrator.hardware import probe
from tests.commands import python
from tests.gpu import proofs, times
from tests.gpu.checks import CHECKS, Check, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import OtherHardware, Outcome, Record
from tests.gpu.sizes import QUICK, SHAPES
from workloads.implementations import parse_implementation
from workloads.protocol import KernelProof

LabOf = Callable[..., Lab]


def as_asked(implementation: str, **metrics: float) -> TrainerAnswer:
    text = parse_implementation(implementation).kernel_text
    proof = KernelProof(text, text, "scripted")
    return TrainerAnswer(metrics={"step_ms": 1.0, "loss": 2.0, **metrics}, proof=proof)


@pytest.fixture
def lab_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LabOf:
    def lab_of(
        answer: Callable[[str], TrainerAnswer] = as_asked, *backends: str, **sizes: Any
    ) -> Lab:
        def ask(lab: Lab, workload: str, implementation: str, *_: Any, **__: Any) -> TrainerAnswer:
            lab.expect_time()
            return answer(implementation)

        monkeypatch.setattr(Lab, "ask", ask)
        chosen = dataclasses.replace(QUICK, **sizes)
        return Lab("gpu", chosen, backends or ("tensorflow",), scratch=tmp_path)

    return lab_of


def outcomes(check: Check, lab: Lab) -> list[Outcome]:
    return list(check(lab, lab.backends[0]))


def test_without_a_gpu_the_command_skips_all_checks(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    file = tmp_path / "folder" / "checks.json"
    done = python("-m", "tests.gpu", "--output", file).expect()
    written = json.loads(file.read_text())
    assert [check["name"] for check in written["checks"]] == list(CHECKS)
    assert {check["reason"] for check in written["checks"]} == {"NVML sees no NVIDIA GPU"}
    assert f"{len(CHECKS)} skipped" in done.out


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize("check", [proofs.evidence, proofs.fit, times.speed, times.predict])
def test_every_check_passes_if_requested_kernels_run(
    check: Check, backend: str, lab_of: LabOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    for outcome in outcomes(check, lab_of(as_asked, backend)):
        # A refusal that was predicted did not happen.
        assert outcome.status == ("failed" if "refused" in outcome.expected else "passed")


def test_a_trial_that_is_not_as_expected_fails(lab_of: LabOf) -> None:
    answers = {
        "tensorflow/cudnn": TrainerAnswer("it ended", is_usable=False),
        "tensorflow/fused": as_asked("tensorflow/fused", loss=2.1),
    }
    lab = lab_of(lambda name: answers.get(name) or as_asked(name))
    assert [(one.status, one.reason) for one in outcomes(proofs.fit, lab)] == [
        ("passed", ""),
        ("failed", "it ended"),
        ("failed", "loss 2.100000 where portable has 2.000000"),
    ]
    (outcome,) = outcomes(proofs.fall_backs, lab_of())
    assert (outcome.status, outcome.reason) == ("failed", "the fall-back was not detected")


@pytest.mark.parametrize(("ratio", "status"), [(15.5, "passed"), (12.3, "missed")])
def test_a_speed_up_below_its_target_is_missed(lab_of: LabOf, ratio: float, status: str) -> None:
    def answer(arm: str) -> TrainerAnswer:
        return as_asked(arm, step_ms=ratio if "portable" in arm else 1.0)

    results = outcomes(times.speed, lab_of(answer, shapes=SHAPES[:1]))
    statuses = {outcome.implementation: outcome.status for outcome in results}
    assert statuses.pop("tensorflow/cudnn") == status
    assert set(statuses.values()) == {"passed"}


def test_errors_and_the_time_limit_end_one_check_only(lab_of: LabOf) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def unimportable(lab: Lab, backend: str) -> Iterator[Outcome]:
        importlib.import_module("no_such_package")
        yield Outcome("unimportable", "first", "passed", backend)

    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("slow", "first", "passed", backend)
        lab.until_s = 0

    record = Record(None, {})
    run_checks([broken, unimportable, slow, proofs.fit], lab_of(), record)
    results = record.outcomes
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
