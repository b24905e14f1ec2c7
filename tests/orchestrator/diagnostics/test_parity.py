"""The parity check around its trainers: participants, results and refusals."""

import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics import parity
from orchestrator.diagnostics.parity import parity_check, participants
from orchestrator.diagnostics.parity.parity_check import PARITY_SETTINGS, ParityCheck, ParityPair
from orchestrator.diagnostics.parity.participants import Excluded, Participant
from orchestrator.diagnostics.parity.saved_outputs import LIST, SavedOutputs, read_saved_outputs
from orchestrator.execution.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.diagnostics.parity_request import ANSWER
from workloads.implementations import parse_implementation
from workloads.layer_traits import Cell
from workloads.protocol import Dataset, Device, KernelProof, TrialRequest

HOSTILE = "tests.workloads.examples.hostile"
GRU = ("cell=gru",)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[mock.Mock]:
    started: list[mock.Mock] = []

    def start(*_: object) -> mock.Mock:
        started.append(mock.Mock())
        return started[-1]

    monkeypatch.setattr(parity_check, "TrainerProcess", start)
    return started


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, started: list[mock.Mock]) -> list[Participant]:
    asked: list[Participant] = []

    def answer(trainer: mock.Mock, request: TrialRequest) -> TrainerAnswer:
        cell = request.settings["settings"]["cell"]
        asked.append(participant(request.implementation, request.device, cell))
        return compared(request)

    monkeypatch.setattr(parity_check, "ask_trainer", answer)
    return asked


def compared(request: TrialRequest) -> TrainerAnswer:
    answer = TrainerAnswer(dataset=Dataset("digits", "0", "here", 320, 320))
    saved = request.settings.get("saved", [])
    answer.texts[ANSWER] = json.dumps([{"difference": 0.0, "exact": True}] * len(saved))
    return answer


def participant(implementation: str, device: Device = "cpu", cell: Cell = "lstm") -> Participant:
    return Participant(
        implementation=parse_implementation(implementation), device=device, cell=cell
    )


def on_devices(monkeypatch: pytest.MonkeyPatch, *devices: Device) -> None:
    monkeypatch.setattr(participants, "devices", lambda: devices)


def test_each_runs_on_every_device_that_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu", "gpu")
    check = parity.prepare_saving((), (), tmp_path)
    lstm, gru = (
        {participant.label for participant in check.participants if participant.cell == cell}
        for cell in ("lstm", "gru")
    )
    assert {"torch/fused on cpu", "torch/fused on gpu", "jax/fused on gpu"} < lstm
    assert not [label for label in lstm if "/auto" in label], "it is one of the others"
    assert lstm - gru == {"jax/cudnn on gpu", "jax/fused on gpu"}
    (refused, *_) = [excluded for excluded in check.excluded if excluded.cell == "gru"]
    assert refused.reason.startswith("JAX has no cuDNN GRU")  # the GPU's reason, not the CPU's


def test_an_implementation_that_can_run_here_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu")
    with pytest.raises(Refusal, match="can run on this machine\n  torch/cudnn: cuDNN"):
        parity.prepare_saving(["torch/cudnn"], GRU, tmp_path)


def test_the_coarser_precision_decides() -> None:
    coarse, finer = participant("torch/fused+bf16"), participant("torch/fused+fp16")
    assert coarse.tolerance(finer) == finer.tolerance(coarse) == 3e-2
    assert FUSED.tolerance(PORTABLE) == 1e-5


FUSED, PORTABLE = participant("torch/fused"), participant("tensorflow/portable")
GOOD = ParityPair(FUSED, PORTABLE, 2.34e-7, True, 1e-5)
ITSELF = ParityPair(FUSED, FUSED, 0.0, True, 1e-5)
FAR = ParityPair(PORTABLE, FUSED, 0.25, True, 1e-5)
NAN = ParityPair(PORTABLE, FUSED, None, True, 1e-5)
DIED = Excluded(FUSED.implementation, "lstm", "it died", "cpu")
LISTED = SavedOutputs(
    machine="there", settings=dict(PARITY_SETTINGS), data="digits", digest="0", saved=(FUSED,)
)


def build_saving(
    *saved: Participant, of: int = 1, excluded: Sequence[Excluded] = ()
) -> ParityCheck:
    """Return a check that has saved for these participants."""
    return ParityCheck(
        PARITY_SETTINGS,
        Path("there"),
        [FUSED] * of,
        saved=[*saved],
        excluded=[*excluded],
        finished=len(saved) + len(excluded),
    )


def build_comparison(
    *pairs: ParityPair, excluded: Sequence[Excluded] = (), finished: int = 1
) -> ParityCheck:
    """Return a check whose one participant has compared these pairs."""
    return ParityCheck(
        PARITY_SETTINGS,
        Path("there"),
        [PORTABLE],
        LISTED,
        data="digits",
        pairs=[*pairs],
        excluded=[*excluded],
        finished=finished,
    )


@pytest.mark.parametrize(
    ("check", "good", "kind", "words"),
    [
        (build_comparison(ITSELF, GOOD), True, "faster", "all 2 pairs ✓"),
        (build_comparison(GOOD, FAR), False, "slower", "1 pair of 2 ✗"),
        (build_comparison(GOOD, NAN), False, "slower", "1 pair of 2 ✗"),
        (build_comparison(excluded=[DIED]), False, "slower", "nothing was compared"),
        (build_comparison(GOOD, finished=0), False, "inconclusive", "stopped after 0 of 1"),
        (build_saving(FUSED), True, "saved", "lstm: torch/fused on cpu"),
        (build_saving(FUSED, of=2), False, "inconclusive", "stopped after 1 of 2"),
        (build_saving(excluded=[DIED]), False, "slower", "failed ✗ torch/fused"),
    ],
)
def test_results_and_their_first_sentence(
    check: ParityCheck, good: bool, kind: str, words: str
) -> None:
    assert (check.is_good, parity.parity_json(check)["passed"]) == (good, good)
    first = parity.parity_document(check).sections[0].bullets[0]
    assert first.kind == kind and first.text.startswith(words)


def test_the_table_has_what_fails_and_the_worst_of_the_others() -> None:
    other = participant("jax/portable")
    far, inexact = ParityPair(other, FUSED, 0.25, True, 1e-5), ParityPair(FUSED, other, 0, False, 1)
    document = parity.parity_document(build_comparison(ITSELF, GOOD, far, NAN, inexact))
    (table,) = document.sections[1].tables
    assert [row[3:] for row in table.rows] == [
        ("2.3e-07", "1.0e-05", "✓"),
        ("2.5e-01", "1.0e-05", "✗"),
        ("nan", "1.0e-05", "✗"),
        ("0.0e+00 ≠", "1.0e+00", "✗"),
    ]


def test_implementations_that_cannot_run_are_listed_once_per_reason() -> None:
    names = ("torch/cudnn", "jax/cudnn")
    cudnn = [Excluded(parse_implementation(name), "lstm", "needs a GPU") for name in names]
    of_gru = Excluded(parse_implementation("jax/fused"), "gru", "knows only the lstm cell")
    check = build_comparison(GOOD, excluded=[*cudnn, of_gru, DIED])
    assert {bullet.text for bullet in parity.parity_document(check).sections[0].bullets[1:]} == {
        "cannot run here: torch/cudnn and jax/cudnn: needs a GPU",
        "cannot run here: jax/fused (gru): knows only the lstm cell",
        "failed ✗ torch/fused on cpu, lstm: it died",
    }


def test_saved_weights_are_loaded_elsewhere(asked: list[Participant], tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    saving = parity.prepare_saving(["torch/fused"], [*GRU, "units=7"], folder)
    saving.run(str)
    assert saving.is_good
    comparison = parity.prepare_comparing(["jax/portable"], [], folder)
    comparison.run(str)
    assert [pair.saved.label for pair in comparison.pairs] == ["torch/fused on cpu"]
    assert comparison.is_good and comparison.settings["units"] == 7
    assert [participant.label for participant in asked] == [
        "torch/fused on cpu",
        "jax/portable on cpu",
    ]
    with pytest.raises(Refusal, match=r"--set cell: expected one that was saved in .* \(gru\)"):
        parity.prepare_comparing(["jax/portable"], ["cell=lstm"], folder)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"version":2', '"version":1', "version: Input should be 2. Save again"),
        (f"[{FUSED.model_dump_json()}]", "[]", "expected saved weights; received none"),
        ("torch/fused", "torch/fuse", "did you mean 'fused'?"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in LISTED.model_dump_json()
    (tmp_path / LIST).write_text(LISTED.model_dump_json().replace(old, new))
    with pytest.raises(Refusal) as refused:
        parity.prepare_comparing([], [], tmp_path)
    assert str(tmp_path / LIST) in str(refused.value)
    assert words in str(refused.value)


def test_a_folder_without_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--save` made"):
        parity.prepare_comparing([], [], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="--save: expected a folder, or a place to make one"):
        parity.prepare_saving(["torch/fused"], [], tmp_path / "file")


THREE = ("torch/fused", "torch/portable", "torch/portable+bf16")


def test_a_trainer_that_ended_is_replaced_and_all_are_closed(
    started: list[mock.Mock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu")

    def answer(trainer: mock.Mock, request: TrialRequest) -> TrainerAnswer:
        has_ended = trainer is started[0]
        return TrainerAnswer("it ended", is_usable=False) if has_ended else compared(request)

    monkeypatch.setattr(parity_check, "ask_trainer", answer)
    check = parity.prepare_saving(THREE, GRU, tmp_path)
    check.run(str)
    failed = parse_implementation("torch/fused")
    assert check.failed == [Excluded(failed, "gru", "it ended", "cpu")]
    assert check.is_complete and not check.is_good
    assert [saved.label for saved in check.saved] == [f"{name} on cpu" for name in THREE[1:]]
    assert [trainer.close.call_count for trainer in started] == [1, 1]


def test_progress_names_each_start_of_a_backend_and_each_result(
    asked: list[Participant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu")
    lines: list[str] = []
    parity.prepare_saving(("jax/portable", *THREE[:2]), GRU, tmp_path).run(lines.append)
    assert lines == [
        "1/3  jax/portable on cpu  gru  starting jax",
        "1/3  jax/portable on cpu  gru  saved  (0 s)",
        "2/3  torch/fused on cpu  gru  starting torch",
        "2/3  torch/fused on cpu  gru  saved  (0 s)",
        "3/3  torch/portable on cpu  gru  saved  (0 s)",
    ]


def test_what_was_saved_before_an_interruption_can_be_loaded(
    started: list[mock.Mock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu")

    def answer(_: mock.Mock, request: TrialRequest) -> TrainerAnswer:
        if request.implementation == "torch/portable":
            raise KeyboardInterrupt
        return compared(request)

    monkeypatch.setattr(parity_check, "ask_trainer", answer)
    check = parity.prepare_saving(THREE, GRU, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        check.run(str)
    assert [trainer.close.call_count for trainer in started] == [1]
    assert (check.finished, check.is_complete, check.is_good) == (1, False, False)
    assert [saved.label for saved in read_saved_outputs(tmp_path).saved] == ["torch/fused on cpu"]


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
