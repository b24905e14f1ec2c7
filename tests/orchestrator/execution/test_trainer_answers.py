"""A trainer's answer to one request: what it proves, and how it fails."""

from orchestrator.execution.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.implementations import parse_implementation
from workloads.protocol import KernelProof, TrialRequest

HOSTILE = "tests.workloads.examples.hostile"


def test_keras_may_choose_any_kernel_where_it_is_asked_to_choose() -> None:
    answer = TrainerAnswer()
    answer.note_event(KernelProof("auto", "portable", "While × 4"))
    assert answer.reason is None
    answer.note_event(KernelProof("fused", "portable", "While × 4"))
    assert answer.reason == "ran portable, not fused (While × 4)"


def test_trainers_that_misbehave_are_reported() -> None:
    implementation = parse_implementation("tensorflow/cudnn")

    def answer(trainer: TrainerProcess, name: str) -> TrainerAnswer:
        return ask_trainer(trainer, TrialRequest(f"{HOSTILE}:{name}", str(implementation)))

    with TrainerProcess(implementation, "cpu") as trainer:
        assert "the workload broke" in str(answer(trainer, "raises").reason)
        assert answer(trainer, "not_possible").failure == "not_possible"
        assert "ran portable, not cudnn" in str(answer(trainer, "other_kernel").reason)
        ended = answer(trainer, "segfaults")
        assert "SIGSEGV" in str(ended.reason) and "address 0" in str(ended.reason)
        assert not ended.is_usable
