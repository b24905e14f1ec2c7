"""The parity check around its trainers: participants, results and refusals."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics import parity
from orchestrator.diagnostics.parity import parity_check
from orchestrator.diagnostics.parity.parity_check import (
    LIST,
    PARITY_SETTINGS,
    Excluded,
    ParityCheck,
    ParityPair,
    Participant,
    SavedList,
)
from orchestrator.diagnostics.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.diagnostics.parity_request import ANSWER
from workloads.implementations import parse_implementation
from workloads.layer_traits import Cell
from workloads.protocol import Dataset, Device, TrialRequest

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
    monkeypatch.setattr(parity_check, "devices", lambda: devices)


def test_each_runs_on_every_device_that_it_can(
    asked: list[Participant], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu", "gpu")
    result = parity.check((), (), str)
    lstm, gru = ({one.label for one in asked if one.cell == cell} for cell in ("lstm", "gru"))
    assert {"torch/fused on cpu", "torch/fused on gpu", "jax/fused on gpu"} < lstm
    assert lstm - gru == {"jax/cudnn on gpu", "jax/fused on gpu"}
    (refused, *_) = [one for one in result.excluded if one.cell == "gru"]
    assert refused.reason.startswith("JAX has no cuDNN GRU")  # the GPU's reason, not the CPU's


def test_two_that_can_be_compared_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    on_devices(monkeypatch, "cpu")
    with pytest.raises(Refusal, match="received torch/fused on cpu\n  torch/cudnn: cuDNN"):
        parity.check(["torch/fused", "torch/cudnn"], GRU, str)


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
LISTED = SavedList(
    machine="there", settings=dict(PARITY_SETTINGS), data="digits", digest="0", saved=(FUSED,)
)


def finished(*pairs: ParityPair, **changes: Any) -> ParityCheck:
    saved = tuple(dict.fromkeys(pair.saved for pair in pairs))
    check = ParityCheck(PARITY_SETTINGS, data="digits", saved=saved, pairs=list(pairs))
    for name, value in changes.items():
        setattr(check, name, value)
    return check


@pytest.mark.parametrize(
    ("result", "good", "kind", "words"),
    [
        (finished(ITSELF, GOOD), True, "faster", "all 2 pairs ✓"),
        (finished(ITSELF), False, "slower", "nothing was compared: each cell has only one"),
        (finished(ITSELF, loaded=LISTED), True, "faster", "all 1 pair ✓"),
        (finished(GOOD, FAR), False, "slower", "1 pair of 2 ✗"),
        (finished(GOOD, NAN), False, "slower", "1 pair of 2 ✗"),
        (finished(excluded=[DIED]), False, "slower", "nothing was compared: all failed"),
        (finished(kept_in=Path("there"), excluded=[DIED]), False, "slower", "failed ✗ torch/fused"),
    ],
)
def test_results_and_their_first_sentence(
    result: ParityCheck, good: bool, kind: str, words: str
) -> None:
    assert (result.is_good, parity.parity_json(result)["passed"]) == (good, good)
    first = parity.parity_document(result).sections[0].bullets[0]
    assert first.kind == kind and first.text.startswith(words)


def test_the_table_has_what_fails_and_the_worst_of_the_others() -> None:
    other = participant("jax/portable")
    far, inexact = ParityPair(other, FUSED, 0.25, True, 1e-5), ParityPair(FUSED, other, 0, False, 1)
    document = parity.parity_document(finished(ITSELF, GOOD, far, NAN, inexact))
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
    result = finished(GOOD, excluded=[*cudnn, of_gru, DIED])
    assert {bullet.text for bullet in parity.parity_document(result).sections[0].bullets[1:]} == {
        "cannot run here: torch/cudnn and jax/cudnn: needs a GPU",
        "cannot run here: jax/fused (gru): knows only the lstm cell",
        "failed ✗ torch/fused on cpu, lstm: it died",
    }


def test_saved_weights_are_loaded_elsewhere(asked: list[Participant], tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    assert parity.check(["torch/fused"], [*GRU, "units=7"], str, into=folder).is_good
    result = parity.check(["jax/portable"], [], str, source=folder)
    assert [pair.saved.label for pair in result.pairs] == ["torch/fused on cpu"]
    assert result.is_good and result.settings["units"] == 7
    with pytest.raises(Refusal, match=r"--set cell: expected one that was saved in .* \(gru\)"):
        parity.check(["jax/portable"], ["cell=lstm"], str, source=folder)


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
        parity.check([], [], str, source=tmp_path)
    assert str(tmp_path / LIST) in str(refused.value)
    assert words in str(refused.value)


def test_a_folder_without_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--save` made"):
        parity.check([], [], str, source=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="--save: expected a folder, or a place to make one"):
        parity.check(["torch/fused"], [], str, into=tmp_path / "file")


def test_a_trainer_that_ended_is_replaced_and_all_are_closed(
    started: list[mock.Mock], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_devices(monkeypatch, "cpu")

    def answer(trainer: mock.Mock, request: TrialRequest) -> TrainerAnswer:
        has_ended = trainer is started[0]
        return TrainerAnswer("it ended", is_usable=False) if has_ended else compared(request)

    monkeypatch.setattr(parity_check, "ask_trainer", answer)
    names = ["torch/fused", "torch/portable", "torch/portable+bf16"]
    lines: list[str] = []
    result = parity.check(names, GRU, lines.append)
    assert "FAILED: it ended" in lines[0]
    failed = parse_implementation("torch/fused")
    assert result.failed == [Excluded(failed, "gru", "it ended", "cpu")]
    assert not result.is_good
    assert {pair.saved.label for pair in result.pairs} == {f"{name} on cpu" for name in names[1:]}
    assert [trainer.close.call_count for trainer in started] == [1, 1]

    started.clear()
    monkeypatch.setattr(parity_check, "ask_trainer", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        parity.check(names, GRU, str)
    assert [trainer.close.call_count for trainer in started] == [1]


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
