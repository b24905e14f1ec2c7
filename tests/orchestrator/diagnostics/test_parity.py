"""The parity check around its trainers: participants, reports and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity import ask, load, weights_folder
from orchestrator.diagnostics.parity import trainers as parity_trainers
from orchestrator.diagnostics.parity.findings import (
    Failed,
    Findings,
    ParityPair,
    comparable,
    tolerance_of,
)
from orchestrator.diagnostics.parity.participants import Participants
from orchestrator.diagnostics.parity.request import USUAL, Impossible, ParityRequest, Participant
from orchestrator.diagnostics.parity.text import as_json, as_text
from orchestrator.diagnostics.parity.trainers import ParityTrainers, RequestOutcome
from orchestrator.diagnostics.parity.weights_folder import LIST, Saved, SavedList
from orchestrator.spec import SpecError
from workloads.eligibility import Cell
from workloads.implementations import parse_implementation
from workloads.protocol import Artifact, Device, KernelProof, Result, TrialRequest
from workloads.settings.parity import ANSWER

HOSTILE = "tests.workloads.examples.hostile"


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)


def participant(implementation: str, device: Device = "cpu", cell: Cell = "lstm") -> Participant:
    return Participant(parse_implementation(implementation), device, cell)


def taking_part(request: ParityRequest, cell: Cell) -> list[str]:
    return [
        member.label for member in request.participants(cell) if isinstance(member, Participant)
    ]


# Participants.


def test_by_default_all_that_can_run_here_takes_part() -> None:
    request = ask((), (), ("cpu",))
    assert request.cells() == ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for cell in request.cells():
        assert taking_part(request, cell) == [
            "tensorflow/portable on cpu",
            "jax/portable on cpu",
            "torch/portable on cpu",
            "torch/fused on cpu",
            "tensorflow/portable+xla on cpu",
        ]
    reasons = {
        str(one.implementation): one.reason
        for one in request.participants("lstm")
        if isinstance(one, Impossible)
    }
    assert reasons["torch/cudnn"] == "cuDNN kernels need an NVIDIA GPU"
    assert set(reasons) == {
        "tensorflow/cudnn",
        "jax/cudnn",
        "torch/cudnn",
        "tensorflow/fused",
        "jax/fused",
    }


def test_each_runs_on_every_device_that_it_can() -> None:
    request = ask((), (), ("cpu", "gpu"))
    lstm, gru = taking_part(request, "lstm"), taking_part(request, "gru")
    assert {"torch/fused on cpu", "torch/fused on gpu", "jax/fused on gpu"} < set(lstm)
    assert len(lstm) == 5 + 10
    assert set(lstm) - set(gru) == {"jax/cudnn on gpu", "jax/fused on gpu"}
    (refused, *_) = [one for one in request.participants("gru") if isinstance(one, Impossible)]
    assert refused.reason.startswith("JAX has no cuDNN GRU")  # the GPU's reason, not the CPU's


def test_names_and_settings_choose() -> None:
    request = ask(["torch/fused", "torch/fused"], ["cell=gru", "units=7"], ("cpu",))
    assert request.cells() == ("gru",)
    assert taking_part(request, "gru") == ["torch/fused on cpu"]
    resolved = request.resolved("gru")
    assert (resolved.cell, resolved.units, resolved.layers) == ("gru", 7, USUAL["layers"])


@pytest.mark.parametrize(
    ("names", "overrides", "words"),
    [
        (["torch/fuse"], [], "expected a kernel among portable, cudnn, fused; received 'fuse'"),
        (["torch/fuse"], [], "did you mean 'fused'?"),
        (["torch"], [], "expected backend/kernel"),
        ([], ["unit=3"], "settings.unit: no such setting (did you mean 'units'?)"),
        ([], ["units=0"], "settings.units: Input should be greater than or equal to 1"),
        ([], ["cell=lsm"], "settings.cell: Input should be 'lstm', 'gru'"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    names: list[str], overrides: list[str], words: str
) -> None:
    with pytest.raises(Refusal) as refused:
        request = ask(names, overrides, ("cpu",))
        Participants.of(request, request.cells(), USUAL)
    assert words in str(refused.value)


def test_an_override_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="expected KEY=VALUE, such as cell=gru"):
        ask([], ["units"], ("cpu",))


def test_a_check_of_one_participant_alone_is_refused() -> None:
    request = ask(["torch/fused", "torch/cudnn"], ["cell=gru"], ("cpu",))
    participants = Participants.of(request, request.cells(), USUAL)
    participants.expect(1)
    with pytest.raises(Refusal) as refused:
        participants.expect(2)
    assert "expected at least 2" in str(refused.value)
    assert "received torch/fused on cpu" in str(refused.value)
    assert "torch/cudnn: cuDNN kernels need an NVIDIA GPU" in str(refused.value)


# Differences.


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("torch/fused", "jax/portable", 1e-5),
        ("torch/fused", "torch/fused+tf32", 2e-3),
        ("torch/fused+fp16", "torch/fused+tf32", 5e-3),
        ("torch/fused+bf16", "torch/fused+fp16", 3e-2),
    ],
)
def test_the_coarser_precision_decides(one: str, other: str, expected: float) -> None:
    assert tolerance_of(participant(one), participant(other)) == expected
    assert tolerance_of(participant(other), participant(one)) == expected


def test_different_mathematics_are_not_compared() -> None:
    assert not comparable(participant("torch/portable+relu"), participant("torch/portable"))
    assert comparable(participant("torch/portable+relu"), participant("jax/portable+relu"))
    assert not comparable(participant("torch/fused"), participant("torch/fused", cell="gru"))


def findings(*pairs: ParityPair, **changes: Any) -> Findings:
    values: dict[str, Any] = {
        "machine": "here (CPU A)",
        "saved_on": None,
        "kept_in": None,
        "data": "digits",
        "settings": USUAL,
        "saved": tuple(dict.fromkeys(pair.saved for pair in pairs)),
        "pairs": pairs,
        "failed": (),
        "impossible": (),
    }
    return Findings(**{**values, **changes})


FUSED, PORTABLE = participant("torch/fused"), participant("tensorflow/portable")
GOOD = ParityPair(FUSED, PORTABLE, 2.34e-7, True, 1e-5)
ITSELF = ParityPair(FUSED, FUSED, 0.0, True, 1e-5)
FAR = ParityPair(PORTABLE, FUSED, 0.25, True, 1e-5)
INEXACT = ParityPair(PORTABLE, FUSED, 1e-9, False, 1e-5)
NAN = ParityPair(PORTABLE, FUSED, None, True, 1e-5)


@pytest.mark.parametrize(
    ("result", "good"),
    [
        (findings(ITSELF, GOOD), True),
        (findings(ITSELF), False),  # nothing was compared with anything else
        (findings(ITSELF, saved_on="there"), True),
        (findings(), False),
        (findings(GOOD, FAR), False),
        (findings(GOOD, INEXACT), False),
        (findings(GOOD, NAN), False),
        (findings(GOOD, failed=(Failed(FUSED, "died"),)), False),
        (findings(saved=(FUSED,), kept_in=Path("there")), True),
        (findings(kept_in=Path("there")), False),
    ],
)
def test_a_check_without_differences_is_good(result: Findings, good: bool) -> None:
    assert result.is_good is good
    assert as_json(result)["passed"] is good


# Reports.


def test_the_table_has_marks_and_the_conclusion_names_the_worst() -> None:
    text = as_text(findings(ITSELF, GOOD))
    assert "all 2 pairs ✓; the largest: lstm, saved by torch/fused on cpu, loaded by" in text
    assert "outputs differ by 2.3e-07 (tolerance 1.0e-05)" in " ".join(text.split())
    row = next(line for line in text.splitlines() if line.startswith(" [1] torch/fused on cpu"))
    assert row.split()[-4:] == ["0", "✓", "2.3e-07", "✓"]
    assert "[2] tensorflow/portable on cpu" in text  # the legend of a column that no row has

    text = as_text(findings(ITSELF, GOOD, FAR))
    assert "1 pair of 3 ✗:" in text
    assert "2.5e-01 ✗" in text
    assert "not finite" in as_text(findings(GOOD, NAN))
    assert "nan ✗" in as_text(findings(GOOD, NAN))
    assert "1.0e-09 ≠ ✗" in as_text(findings(GOOD, INEXACT))
    assert "the weights do not read back" in " ".join(as_text(findings(GOOD, INEXACT)).split())
    assert "nothing was compared: each cell has only one" in as_text(findings(ITSELF))
    assert "nothing was compared: all failed" in as_text(findings(failed=(Failed(FUSED, "died"),)))


def test_implementations_that_cannot_run_are_listed_once_per_reason() -> None:
    cudnn = [
        Impossible(parse_implementation(f"{backend}/cudnn"), "lstm", "needs a GPU")
        for backend in ("torch", "jax")
    ]
    of_gru = Impossible(parse_implementation("jax/fused"), "gru", "knows only the lstm cell")
    result = findings(GOOD, impossible=(*cudnn, of_gru), failed=(Failed(FUSED, "it died"),))
    text = " ".join(as_text(result).split())
    assert "cannot run here: torch/cudnn and jax/cudnn: needs a GPU" in text
    assert "cannot run here: jax/fused (gru): knows only the lstm cell" in text
    assert "failed ✗ torch/fused on cpu, lstm: it died" in text


@pytest.mark.parametrize("width", [60, 100])
def test_the_tables_of_a_large_machine_fit(width: int) -> None:
    participants = [
        participant(f"tensorflow/{kernel}+{option}", device)
        for kernel in ("portable", "cudnn", "fused")
        for option in ("bf16", "fp16")
        for device in ("cpu", "gpu")
    ]
    pairs = [
        ParityPair(one, other, 1.2e-3, True, 3e-2) for one in participants for other in participants
    ]
    text = as_text(findings(*pairs), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("1.2e-03 ✓") == len(pairs)


def test_the_object_has_every_pair() -> None:
    body = as_json(findings(GOOD, FAR, NAN))
    assert (body["format"], body["version"]) == ("rnnsweep-parity", 1)
    assert body["pairs"][0] == {
        "cell": "lstm",
        "saved_by": {"implementation": "torch/fused", "device": "cpu"},
        "loaded_by": {"implementation": "tensorflow/portable", "device": "cpu"},
        "difference": 2.34e-7,
        "tolerance": 1e-5,
        "exact": True,
        "within": True,
    }
    assert [pair["within"] for pair in body["pairs"]] == [True, False, False]
    assert json.loads(json.dumps(body, allow_nan=False)) == body


# Saved weights.


def listed(**changes: Any) -> SavedList:
    names = weights_folder.file_names(FUSED, 1)
    one = Saved(implementation="torch/fused", device="cpu", cell="lstm", **names)
    values = {"machine": "there", "settings": dict(USUAL), "data": "digits", "digest": "0"}
    return SavedList(**{**values, "saved": (one,), **changes})


def test_the_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    weights_folder.write(tmp_path, listed())
    assert weights_folder.read(tmp_path) == listed()
    (one,) = listed().saved
    assert one.participant == FUSED
    assert one.weights == "lstm-1-torch-fused-on-cpu.npz"


def edited(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: {**body, **changes}


def first_saved(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: {**body, "saved": [{**body["saved"][0], **changes}]}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (edited(version=2), "version: Input should be 1. Save again"),
        (edited(more=1), "more: Extra inputs are not permitted"),
        (edited(saved=[]), "expected saved weights; received none"),
        (first_saved(cell="lsm"), "saved.0.cell: Input should be 'lstm'"),
        (first_saved(weights="../../etc/passwd"), "saved.0.weights: String should match"),
        (first_saved(implementation="torch/fuse"), "did you mean 'fused'?"),
        (lambda body: [], "the file: Input should be an object"),
    ],
)
def test_a_list_that_is_none_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], words: str
) -> None:
    weights_folder.write(tmp_path, listed())
    body = json.loads((tmp_path / LIST).read_text())
    (tmp_path / LIST).write_text(json.dumps(edit(body)))
    with pytest.raises(Refusal) as refused:
        weights_folder.read(tmp_path)
    assert str(tmp_path / LIST) in str(refused.value)
    assert words in str(refused.value)


def test_a_folder_without_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="expected a folder that `rnnsweep parity --save` made"):
        weights_folder.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="--save: expected a folder, or a place to make one"):
        weights_folder.make(tmp_path / "file")


def test_only_cells_that_were_saved_can_be_loaded(tmp_path: Path) -> None:
    weights_folder.write(tmp_path, listed())
    request = ask(["torch/fused"], ["cell=gru"], ("cpu",))
    with pytest.raises(Refusal, match=r"--set cell: expected one that was saved in .* \(lstm\)"):
        load(request, tmp_path, print)


def fall_back(
    trainers: ParityTrainers,
    requests: Sequence[tuple[Participant, TrialRequest]],
    report: Callable[[Participant, RequestOutcome], None],
) -> dict[Participant, RequestOutcome]:
    """Answers of trainers that load by another kernel: the outputs agree, the proof does not."""
    answers = {participant: RequestOutcome() for participant, _ in requests}
    for participant, answer in answers.items():
        answer.take(KernelProof("fused", "portable", "While × 2"))
        answer.take(Artifact(ANSWER, '[{"difference": 0.0, "exact": true}]'))
        assert answer.take(Result({}))
        report(participant, answer)
    return answers


def test_a_participant_that_loads_with_another_kernel_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParityTrainers, "ask", fall_back)
    weights_folder.write(tmp_path, listed())
    lines: list[str] = []
    result = load(ask(["torch/fused"], [], ("cpu",)), tmp_path, lines.append)
    assert result.failed == (Failed(FUSED, "ran portable, not fused (While × 2)"),)
    assert (result.pairs, result.is_good) == ((), False)
    assert "FAILED: ran portable, not fused" in lines[0]


# Real trainers.


@pytest.fixture
def asked() -> Iterator[Callable[..., dict[str, RequestOutcome]]]:
    """Send trainers workloads that misbehave; the outcomes by the workload's name."""
    with ParityTrainers() as trainers:

        def asking(
            *names: str, implementation: str = "tensorflow/portable"
        ) -> dict[str, RequestOutcome]:
            cells: tuple[Cell, ...] = ("lstm", "gru", "rnn_tanh", "rnn_relu")
            participants = {
                participant(implementation, cell=cell): name
                for name, cell in zip(names, cells, strict=False)
            }
            requests = [
                (member, TrialRequest(f"{HOSTILE}:{name}", implementation))
                for member, name in participants.items()
            ]
            heard: list[Participant] = []
            answers = trainers.ask(requests, lambda member, answer: heard.append(member))
            assert heard == list(answers) == list(participants)
            return {participants[member]: answer for member, answer in answers.items()}

        yield asking


def test_a_trainer_that_fails_does_not_end_the_check(
    asked: Callable[..., dict[str, RequestOutcome]],
) -> None:
    answers = asked("raises", "segfaults", "other_kernel", "noop")
    assert answers["noop"].reason is None
    assert "the workload broke" in str(answers["raises"].reason)
    assert "SIGSEGV" in str(answers["segfaults"].reason)
    assert "about to read address 0" in str(answers["segfaults"].reason)
    assert asked("not_possible")["not_possible"].possible is False
    reason = asked("other_kernel", implementation="tensorflow/cudnn")["other_kernel"].reason
    assert reason == "ran portable, not cudnn (as it reports itself)"


def test_a_trainer_that_hangs_is_ended(
    asked: Callable[..., dict[str, RequestOutcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("noop")
    monkeypatch.setattr(parity_trainers, "_IDLE_S", 2.0)
    answers = asked("sleeps", "noop")
    assert answers["sleeps"].reason == "neither an event nor CPU time for 2 s"
    assert answers["noop"].reason is None
