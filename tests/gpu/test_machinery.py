"""The machinery of the checks, with answers instead of a GPU; the checks in tiny sizes on a CPU."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.diagnostics.trainer_answers import TrainerAnswer
from orchestrator.hardware import probe
from tests.commands import python
from tests.gpu import proofs, table
from tests.gpu.checks import Check, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Outcome, Record
from tests.gpu.sizes import SIZES
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from tests.workloads.shared_trainer import expect_package
from workloads.backends.registry import backends
from workloads.eligibility import is_installed
from workloads.implementations import parse_implementation
from workloads.protocol import KernelProof

LabOf = Callable[..., Lab]


def as_asked(implementation: str, **metrics: float) -> TrainerAnswer:
    text = parse_implementation(implementation).kernel_text
    proof = KernelProof(text, text, "scripted")
    return TrainerAnswer(metrics={"step_ms": 1.0, "loss": 2.0, **metrics}, proof=proof)


@pytest.fixture
def lab_of(monkeypatch: pytest.MonkeyPatch) -> LabOf:
    def lab_of(answer: Callable[[str], TrainerAnswer] = as_asked) -> Lab:
        def ask(lab: Lab, workload: str, implementation: str, *_: Any, **__: Any) -> TrainerAnswer:
            lab.expect_time()
            return answer(implementation)

        monkeypatch.setattr(Lab, "ask", ask)
        return Lab("gpu", SIZES["quick"], ["tensorflow"])

    return lab_of


def outcomes(check: Check, lab: Lab) -> list[Outcome]:
    return list(check(lab, lab.backends[0]))


def test_without_a_gpu_the_commands_fail_and_name_what_is_needed(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    file = tmp_path / "folder" / "checks.json"
    for words in (("--expect-gpu",), ("--output", file)):
        done = python("-m", "tests.gpu", *words).expect(1)
        assert "needs an NVIDIA GPU and its driver" in done.err
    written = json.loads(file.read_text())
    assert {check["name"] for check in written["checks"]} == {"presence"}
    assert {check["status"] for check in written["checks"]} == {"skipped"}


def test_only_a_kernel_that_was_proven_on_a_gpu_is_a_success(
    lab_of: LabOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = TrainerAnswer("it sees none", "not_possible")
    blind = lab_of(lambda name: none if "jax" in name else as_asked(name))
    blind.backends = ("tensorflow", "jax")
    for installed, seen in ((False, ["skipped", "skipped"]), (True, ["passed", "failed"])):
        monkeypatch.setattr("tests.gpu.checks.is_installed", lambda _, here=installed: here)
        record = Record(None, {"device": "gpu"}, {})
        run_checks([proofs.fit], blind, record, ["NVIDIA T4"])
        assert {outcome.name for outcome in record.outcomes} == {"presence"}, "it stops there"
        assert sorted(outcome.status for outcome in record.outcomes) == sorted(seen)
        record.add(Outcome("evidence", "lstm", "passed", measured={"ran": "portable"}))
        assert record.failure is not None
        record.add(Outcome("evidence", "lstm", "passed", measured={"ran": "cudnn"}))
        assert (record.failure is None) == (not installed), "a blind framework is a failure"


def test_a_precision_that_rounds_nothing_fails(lab_of: LabOf) -> None:
    for rounding, status in ((1e-6, "failed"), (1e-3, "passed"), (0.5, "failed")):
        answer = partial(as_asked, outputs=rounding, last=rounding)
        (first, *_) = outcomes(proofs.precisions, lab_of(answer))
        assert (first.implementation, first.status) == ("tensorflow/portable+tf32", status)


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
    reasons = {one.reason for one in outcomes(proofs.predict, lab_of())}
    assert reasons == {"no evaluate_s, predict_s, predict_sample_ms"}
    (outcome,) = outcomes(proofs.fall_backs, lab_of())
    assert outcome.reason == "the fall-back was not detected"
    rates = {"tensorflow/portable+tf32": 1.0}
    lab = lab_of(lambda arm: as_asked(arm, product_flops_per_s=rates.get(arm, 2.0)))
    assert [one.status for one in outcomes(proofs.roofline, lab)] == ["passed", "failed", "passed"]


def test_weights_that_cudnn_copies_in_every_call_fail(
    lab_of: LabOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)
    warned = "UserWarning: RNN module weights are not part of single contiguous chunk of memory."
    monkeypatch.setattr(Lab, "printed", lambda *_: warned)
    checked = proofs.evidence(lab_of(), "torch")
    copied = {one.implementation for one in checked if "copies" in one.reason}
    options = ("", "+again", "+bf16", "+fp16", "+tf32")
    assert copied == {f"torch/fused{option}" for option in options}


def test_errors_and_the_time_limit_end_one_check_only(lab_of: LabOf) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("slow", "first", "passed", backend)
        lab.until_s = 0

    record = Record(None, {}, {})
    run_checks([broken, slow, proofs.fit], lab_of(), record)
    presence, *results = record.outcomes
    assert presence.status == "passed"
    assert [(outcome.name, outcome.status) for outcome in results] == [
        ("broken", "passed"),
        ("broken", "failed"),
        ("slow", "passed"),
        ("fit", "skipped"),
    ]
    assert "no such luck" in results[1].reason
    assert results[3].reason.startswith("the time limit was reached")
    assert record.done == ["slow tensorflow"]


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    file, hardware = tmp_path / "checks.json", {"gpus": ["H200"]}
    first = Record(file, hardware, {"driver": "580"})
    first.finish("numbers", "jax")
    first.versions["jax"] = {"jax": "0.10"}
    first.add(Outcome("fit", "a", "failed", "jax", "jax/cudnn", "why"))
    first.add(Outcome("fit", "b", "passed", measured={"ratio": 2.0, "rounds": [1, 2]}))
    second = Record(file, hardware, {"driver": "590"})
    second.add(Outcome("fit", "a", "passed", "jax", "jax/cudnn"))
    third = Record(file, hardware, {})
    assert third.done == ["numbers jax"]
    assert [(e.case, e.status) for e in third.outcomes] == [("b", "passed"), ("a", "passed")]
    assert third.outcomes[0].measured == {"ratio": 2.0, "rounds": [1, 2]}
    assert third.versions == {"jax": {"jax": "0.10"}}
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(SystemExit, match="choose another"):
        Record(file, {"gpus": ["T4"]}, {})


def test_the_page_has_the_table_of_the_results() -> None:
    page, kept = table.PAGE.read_text(), table.RESULTS
    assert page == table.render(page, json.loads(kept.read_text()) if kept.exists() else {})
    measured = {
        "fused": {"step_ms": 2.0, "step_ms portable/this": 4.5},
        "by hand": {"step_ms": 1.9},
    }
    checks = [
        {"name": "speed", "case": "c", "implementation": f"torch/{kernel}", "measured": figures}
        for kernel, figures in measured.items()
    ]
    results = {"hardware": {"gpus": ["T4"]}, "date": "2026-11-23", "versions": {}, "checks": checks}
    assert "| c | torch/fused | 2 | 4.5 | 0.95 | – |\n" in table.render(page, results)


ON_A_CPU = [
    *((backend, check) for backend in backends() for check in (proofs.numbers, proofs.speed)),
    *(("tensorflow", check) for check in (proofs.evidence, proofs.refusals, proofs.memory)),
    *(("torch", check) for check in (proofs.fall_backs, proofs.fit, proofs.predict)),
    *(("torch", check) for check in (proofs.clocks, proofs.roofline)),
]


@pytest.fixture(scope="module")
def cpu_lab() -> Iterator[Lab]:
    names = sorted(filter(is_installed, backends()), reverse=True)  # `clocks` runs on the first
    with Lab("cpu", SIZES["quick"], names) as lab:
        yield lab


@pytest.mark.full
@pytest.mark.parametrize(
    ("backend", "check"), ON_A_CPU, ids=lambda value: getattr(value, "__name__", value)
)
def test_checks_run_on_a_cpu(cpu_lab: Lab, backend: str, check: Any) -> None:
    expect_package(backend)
    outcomes = list(check(cpu_lab, backend))
    assert [outcome for outcome in outcomes if outcome.status not in ("passed", "skipped")] == []
    assert any(outcome.status == "passed" for outcome in outcomes)


@pytest.mark.full
@pytest.mark.parametrize(("watts", "wrong"), [(300.0, ""), (0.0, "energy_j by power is 0")])
def test_only_a_gpu_that_draws_power_is_plausible(
    cpu_lab: Lab, watts: float, wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expect_package("torch")
    gpu = SimulatedGpu(power_w=watts, energy_j=Trend(5e4, per_s=watts), memory_used_mib=1024.0)
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    (outcome,) = proofs.telemetry(cpu_lab, "torch")
    assert wrong in outcome.reason
    assert bool(outcome.reason) == bool(wrong)
    assert wrong or "1.33 times" in proofs.implausible({**outcome.measured, "counter/power": 1.33})
