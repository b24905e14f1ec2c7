"""The machinery of the checks, with answers instead of a GPU; the checks in tiny sizes on a CPU."""

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.gpu import proofs, table
from infra.gpu.checks import CHECKS, Check, run_checks
from infra.gpu.conclusion import Conclusion, ExitCode, conclude
from infra.gpu.conditions import code_version, conditions_of
from infra.gpu.expectations import BY_HAND
from infra.gpu.lab import Lab
from infra.gpu.outcomes import OtherHardware, Outcome, Record
from infra.gpu.sizes import SIZES
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.hardware import probe
from tests.commands import python
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from tests.workloads.shared_trainer import expect_package
from workloads.backends.registry import backends
from workloads.eligibility import is_installed
from workloads.implementations import parse_implementation
from workloads.protocol import KernelProof

GPU = "NVIDIA H100"
LabOf = Callable[..., Lab]
Proof = Callable[[Lab, str], Iterator[Outcome]]


def as_asked(implementation: str, **metrics: float) -> TrainerAnswer:
    text = parse_implementation(implementation).kernel_text
    proof = KernelProof(text, text, "scripted")
    usual = {"step_ms": 1.0, "loss": 2.0, **dict.fromkeys(proofs.ROLES, 1e-7)}
    return TrainerAnswer(metrics={**usual, **metrics}, proof=proof)


@pytest.fixture
def lab_of(monkeypatch: pytest.MonkeyPatch) -> LabOf:
    def lab_of(
        answer: Callable[[str], TrainerAnswer] = as_asked, *backends: str, sizes: str = "quick"
    ) -> Lab:
        def ask(lab: Lab, workload: str, implementation: str, *_: Any, **__: Any) -> TrainerAnswer:
            lab.expect_time()
            return answer(implementation)

        monkeypatch.setattr(Lab, "ask", ask)
        monkeypatch.setattr("infra.gpu.checks.is_installed", lambda _: True)
        monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)
        return Lab("gpu", SIZES[sizes], backends or ["tensorflow"])

    return lab_of


def outcomes(check: Proof, lab: Lab) -> list[Outcome]:
    return list(check(lab, lab.backends[0]))


def asking(
    answer: Callable[[str], TrainerAnswer],
) -> tuple[list[str], Callable[[str], TrainerAnswer]]:
    """Return a list that gets the implementations that are asked, and the function that answers."""
    asked = list[str]()

    def note_and_answer(implementation: str) -> TrainerAnswer:
        asked.append(implementation)
        return answer(implementation)

    return asked, note_and_answer


def record_of(lab: Lab, path: Path | None = None, **conditions: str) -> Record:
    record = Record(path, {"gpus": [GPU]})
    for backend in lab.backends:
        record.use_conditions(backend, conditions)
    return record


def run(lab: Lab, record: Record, *checks: Proof | Check) -> Conclusion:
    chosen = [
        check if isinstance(check, Check) else CHECKS.get(check.__name__, Check(check))
        for check in checks
    ]
    return conclude(record, chosen, run_checks(chosen, lab, record, [GPU]))


def test_without_a_gpu_the_command_fails_and_names_what_is_needed(tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here")
    file = tmp_path / "folder" / "checks.json"
    done = python("-m", "infra.gpu", "--output", file).expect(1)
    assert "needs an NVIDIA GPU and its driver" in done.err
    written = json.loads(file.read_text())
    assert {check["name"] for check in written["checks"]} == {"presence"}
    assert {check["status"] for check in written["checks"]} == {"skipped"}
    python("-m", "infra.gpu", "--output", file, "--sizes", "full").expect(2)


def test_a_blind_framework_ends_the_run_and_one_that_is_missing_leaves_it_incomplete(
    lab_of: LabOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = TrainerAnswer("it sees none", "not_possible")
    blind = lab_of(lambda name: none if "jax" in name else as_asked(name), "tensorflow", "jax")
    record = record_of(blind)
    assert run(blind, record, proofs.fit).code == ExitCode.FAILED
    (sees, misses) = record.counted(blind.backends, ["presence", "fit"])
    assert [sees.status, misses.status] == ["passed", "failed"]
    assert GPU in misses.reason
    assert "it sees none" in misses.reason
    monkeypatch.setattr("infra.gpu.checks.is_installed", lambda name: name != "jax")
    record = record_of(blind)
    concluded = run(blind, record, proofs.fit)
    assert concluded.code == ExitCode.INCOMPLETE
    assert "presence jax" in concluded.text
    assert "tensorflow" not in concluded.text


def test_only_a_kernel_that_was_proven_is_in_order(lab_of: LabOf) -> None:
    def portable(_: str) -> TrainerAnswer:
        proof = KernelProof("portable", "portable", "scripted")
        return replace(as_asked("jax/portable"), proof=proof)

    for answer, code in ((as_asked, ExitCode.IN_ORDER), (portable, ExitCode.FAILED)):
        lab = lab_of(answer)
        assert run(lab, record_of(lab), proofs.fit).code == code
    unproven = lab_of(lambda name: replace(as_asked(name), proof=None))
    for check in (proofs.numbers, proofs.precisions, proofs.masks, proofs.fit):
        reasons = {one.reason for one in outcomes(check, unproven)}
        assert reasons == {"no kernel was proven"}, check.__name__
    lab = lab_of()
    assert run(lab, record_of(lab)).code == ExitCode.IN_ORDER, "presence alone proves nothing"


def test_a_run_is_incomplete_until_every_chosen_check_is_done(
    lab_of: LabOf, tmp_path: Path
) -> None:
    lab, file = lab_of(), tmp_path / "checks.json"

    def answer_until_fit_is_done(name: str) -> TrainerAnswer:
        if name == "tensorflow/fused":
            lab.until_s = 0.0
        return as_asked(name)

    lab = lab_of(answer_until_fit_is_done)
    concluded = run(lab, record_of(lab, file), proofs.fit, proofs.numbers)
    assert concluded.code == ExitCode.INCOMPLETE
    assert "numbers tensorflow" in concluded.text
    assert "fit" not in concluded.text
    asked, answer = asking(as_asked)
    lab = lab_of(answer)
    assert run(lab, record_of(lab, file), proofs.fit, proofs.numbers).code == ExitCode.IN_ORDER
    kernels = ["portable", "cudnn", "fused"]
    assert asked == [f"tensorflow/{kernel}" for kernel in ["portable", *kernels]], "numbers alone"
    stopped = lab_of()
    stopped.until_s = 0.0
    assert run(stopped, record_of(stopped), proofs.fit).code == ExitCode.FAILED, "nothing was seen"


@pytest.mark.parametrize(
    ("rounding", "status"), [(1e-6, "failed"), (1e-3, "passed"), (0.5, "failed")]
)
def test_a_precision_that_rounds_nothing_fails(lab_of: LabOf, rounding: float, status: str) -> None:
    rounded = dict.fromkeys(proofs.ROLES, rounding)
    (first, *_) = outcomes(proofs.precisions, lab_of(lambda arm: as_asked(arm, **rounded)))
    assert (first.implementation, first.status) == ("tensorflow/portable+tf32", status)


def test_a_trial_that_is_not_as_expected_fails(lab_of: LabOf) -> None:
    answers = {
        "tensorflow/cudnn": TrainerAnswer("it ended", is_usable=False),
        "tensorflow/fused": as_asked("tensorflow/fused", loss=2.1),
    }
    lab = lab_of(lambda name: answers.get(name) or as_asked(name))
    found = [outcome.status for outcome in outcomes(proofs.fit, lab)]
    assert found == ["passed", "failed", "failed"]
    (undetected,) = outcomes(proofs.fall_backs, lab_of())
    assert undetected.status == "failed"


def test_weights_that_cudnn_copies_in_every_call_fail(
    lab_of: LabOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = "UserWarning: RNN module weights are not part of single contiguous chunk of memory."
    monkeypatch.setattr(Lab, "printed", lambda *_: warned)
    checked = proofs.evidence(lab_of(), "torch")
    copied = {outcome.implementation for outcome in checked if "copies" in outcome.reason}
    options = ("", "+again", "+bf16", "+fp16", "+tf32")
    assert copied == {f"torch/fused{option}" for option in options}


def test_errors_and_the_time_limit_end_one_check_only(lab_of: LabOf) -> None:
    def broken(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("broken", "first", "passed", backend)
        raise RuntimeError("no such luck")

    def slow(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield Outcome("slow", "first", "passed", backend)
        lab.until_s = 0

    lab = lab_of()
    record = record_of(lab)
    concluded = run(lab, record, broken, slow, proofs.fit)
    presence, *results = record.counted(lab.backends, ["presence", "broken", "slow", "fit"])
    assert presence.status == "passed"
    assert [(outcome.name, outcome.status) for outcome in results] == [
        ("broken", "passed"),
        ("broken", "failed"),
        ("slow", "passed"),
        ("fit", "skipped"),
    ]
    assert "no such luck" in results[1].reason
    assert results[3].reason.startswith("time limit reached")
    assert record.is_done("slow", "tensorflow")
    assert not record.is_done("broken", "tensorflow")
    assert concluded.code == ExitCode.FAILED


def passed(check: str, case: str, implementation: str, **measured: float) -> Outcome:
    backend = implementation.partition("/")[0]
    names = {name.replace("__", ", "): value for name, value in measured.items()}
    return Outcome(check, case, "passed", backend, implementation, measured=names)


def speeds(fused_ms: float, by_hand_ms: float) -> list[Outcome]:
    steps = {"torch/fused": fused_ms, BY_HAND: by_hand_ms, "torch/portable": 50.0}
    return [passed("speed", "next_token", arm, step_ms=ms) for arm, ms in steps.items()]


def telemetry(energy: float, others: float) -> list[Outcome]:
    figures = {"counter/power": energy, "processes of others": others}
    return [replace(passed("telemetry", "c", "jax/fused"), measured=figures)]


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (speeds(5.2, 5.0), ""),
        (speeds(15.0, 5.0), "step_ms fused/by hand"),
        (telemetry(1.02, 1), "processes of others"),
    ],
)
def test_figures_that_are_not_as_expected_are_missed_and_stop_nothing(
    lab_of: LabOf, found: list[Outcome], missed: str
) -> None:
    def measured(lab: Lab, backend: str) -> Iterator[Outcome]:
        yield from (one for one in found if one.backend == backend)

    measured.__name__ = found[0].name
    lab = lab_of(as_asked, "torch", "jax")
    record = record_of(lab)
    checks = [Check(measured, proves_kernel=False), CHECKS["fit"]]
    concluded = run(lab, record, *checks)
    judged = [one for one in record.counted(lab.backends, [found[0].name]) if one.judges]
    assert judged
    assert [one.judges for one in judged if one.status == "missed"] == [missed] * bool(missed)
    assert concluded.code == (ExitCode.MISSED if missed else ExitCode.IN_ORDER)
    assert record.is_done("fit", "jax")


def test_an_existing_file_is_continued(tmp_path: Path) -> None:
    file, hardware = tmp_path / "checks.json", {"gpus": ["H200"]}
    first = Record(file, hardware)
    first.finish("numbers", "jax")
    first.add(Outcome("fit", "a", "failed", "jax", "jax/cudnn", "why"))
    first.add(Outcome("fit", "b", "passed", "jax", measured={"ratio": 2.0, "rounds": [1, 2]}))
    second = Record(file, hardware)
    second.add(Outcome("fit", "a", "passed", "jax", "jax/cudnn"))
    third = Record(file, hardware)
    assert third.is_done("numbers", "jax")
    found = third.counted(["jax"], ["fit"])
    assert [(one.case, one.status) for one in found] == [("b", "passed"), ("a", "passed")]
    assert found[0].measured == {"ratio": 2.0, "rounds": [1, 2]}
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OtherHardware, match="choose another"):
        Record(file, {"gpus": ["T4"]})


def test_outcomes_of_other_versions_are_kept_and_do_not_count(
    lab_of: LabOf, tmp_path: Path
) -> None:
    file, lab = tmp_path / "checks.json", lab_of()
    before = {"nvidia-cudnn-cu12": "9.20", "driver": "580"}
    assert run(lab, record_of(lab, file, **before), proofs.fit).code == ExitCode.IN_ORDER
    record = Record(file, {"gpus": [GPU]})
    changed = record.use_conditions("tensorflow", {**before, "driver": "590"})
    assert changed == {"driver": "580, now 590"}
    assert not record.is_done("fit", "tensorflow")
    assert record.counted(["tensorflow"], ["fit"]) == []
    assert run(lab, record, proofs.fit).code == ExitCode.IN_ORDER
    back = record_of(lab, file, **before)
    assert back.is_done("fit", "tensorflow"), "the same conditions again"
    assert len(back.counted(["tensorflow"], ["fit"])) == 3


def test_the_conditions_are_the_installed_packages_and_the_code(tmp_path: Path) -> None:
    conditions = conditions_of("torch", "580.95")
    assert conditions["driver"] == "580.95"
    assert conditions["numpy"] == importlib.metadata.version("numpy")
    assert conditions == conditions_of("torch", "580.95")
    (tmp_path / "workloads").mkdir()
    source = tmp_path / "workloads" / "step.py"
    source.write_text("a = 1\n")
    downloaded = code_version(tmp_path)
    source.write_text("a = 2\n")
    assert downloaded["commit"] == "unknown"
    assert code_version(tmp_path)["code"] != downloaded["code"]


def test_the_page_has_the_table_of_the_results() -> None:
    page, kept = table.PAGE.read_text(), table.RESULTS
    assert page == table.render(page, json.loads(kept.read_text()) if kept.exists() else [])


ON_A_CPU = [
    *((backend, proofs.numbers) for backend in backends()),
    *(("tensorflow", check) for check in (proofs.evidence, proofs.refusals, proofs.memory)),
    *(("jax", check) for check in (proofs.speed, proofs.masks)),
    *(("torch", check) for check in (proofs.fall_backs, proofs.fit, proofs.predict)),
    ("torch", proofs.clocks),
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


def test_a_gpu_at_work_without_a_figure_is_implausible() -> None:
    names = ["energy_j by counter", "energy_j by power", "max_temperature_c"]
    names += ["mean_gpu_utilization_pct", "peak_gpu_used_mib"]
    measured = dict.fromkeys(names, 300.0)
    assert proofs.implausible(measured) == ""
    assert proofs.implausible({**measured, "energy_j by power": 0.0}) == "energy_j by power is 0"
    del measured["max_temperature_c"]
    assert proofs.implausible(measured) == "max_temperature_c is 0"


@pytest.mark.full
def test_the_telemetry_of_a_gpu_that_draws_power_is_plausible(
    cpu_lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expect_package("torch")
    idle_trainers = [(cpu_lab.pid(other), 300.0) for other in cpu_lab.backends]
    gpu = SimulatedGpu(
        power_w=300.0,
        energy_j=Trend(5e4, per_s=300.0),
        memory_used_mib=1024.0,
        processes=[*idle_trainers, (1, 200.0)],
    )
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    (outcome,) = proofs.telemetry(cpu_lab, "torch")
    assert outcome.reason == ""
    assert outcome.measured["processes of others"] == 1, "not the warm trainers of the checks"
