"""The check itself: all participants train and save, then all load the weights of all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator import hardware
from orchestrator.cluster.connection import this_machine
from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity import weights_folder
from orchestrator.diagnostics.parity.findings import Findings, ParityPair, comparable, tolerance_of
from orchestrator.diagnostics.parity.participants import Participants
from orchestrator.diagnostics.parity.request import USUAL, ParityRequest, Participant
from orchestrator.diagnostics.parity.trainers import ParityTrainers, RequestOutcome
from orchestrator.diagnostics.parity.weights_folder import Saved, SavedList
from workloads.protocol import Device, TrialRequest
from workloads.settings.parity import ANSWER, OUTPUT_COMPARISONS, LoadRequest, SaveRequest

Report = Callable[[str], None]
"""Prints a line of progress, from any thread."""


def devices() -> tuple[Device, ...]:
    """Return the devices of this machine, the GPU last."""
    return ("cpu", "gpu") if hardware.probe().gpus else ("cpu",)


def check(request: ParityRequest, report: Report, tolerance: float | None = None) -> Findings:
    """Check all pairs on this machine, through a temporary folder.

    Args:
        request: implementations, devices and settings.
        report: prints a line for each finished step.
        tolerance: replaces those by precision.

    Raises:
        Refusal: the settings are wrong, or nothing can be compared here.
    """
    participants = Participants.of(request, request.cells(), USUAL)
    participants.expect(2)
    with (
        tempfile.TemporaryDirectory(prefix="rnnsweep-parity-") as name,
        ParityTrainers() as trainers,
    ):
        folder = Path(name)
        listed = _save(participants, folder, trainers, report)
        pairs = _load(participants, listed, folder, trainers, report, tolerance)
    return _findings(participants, listed, pairs)


def save(request: ParityRequest, folder: Path, report: Report) -> Findings:
    """Save weights only, into a folder that can be copied to another machine; compare nothing.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or the folder cannot be made.
    """
    participants = Participants.of(request, request.cells(), USUAL)
    participants.expect(1)
    folder = weights_folder.make(folder)
    with ParityTrainers() as trainers:
        listed = _save(participants, folder, trainers, report)
    weights_folder.write(folder, listed)
    return _findings(participants, listed, (), kept_in=folder)


def load(
    request: ParityRequest, folder: Path, report: Report, tolerance: float | None = None
) -> Findings:
    """Load the weights that `save` saved, here or on another machine, and compare.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or nothing was saved there.
    """
    listed = weights_folder.read(folder)
    cells = [cell for cell in request.cells() if listed.of(cell)]
    if not cells:
        kept = ", ".join(dict.fromkeys(saved.cell for saved in listed.saved))
        raise Refusal(f"--set cell: expected one that was saved in {folder} ({kept})")
    participants = Participants.of(request, cells, listed.settings)
    participants.expect(1)
    with ParityTrainers() as trainers:
        pairs = _load(participants, listed, folder.resolve(), trainers, report, tolerance)
    return _findings(participants, listed, pairs, saved_on=listed.machine)


def _save(
    participants: Participants, folder: Path, trainers: ParityTrainers, report: Report
) -> SavedList:
    """Train and save all participants, each with its own seed, so that all weights differ."""
    places = [
        Saved(
            implementation=str(participant.implementation),
            device=participant.device,
            cell=participant.cell,
            **weights_folder.file_names(participant, number),
        )
        for number, participant in enumerate(participants.members, 1)
    ]
    requests = [
        _request("save", saved.participant, _saving(participants, saved, folder), seed=number)
        for number, saved in enumerate(places)
    ]
    answered = trainers.ask(requests, _progress(report, len(requests), "saved"))
    participants.drop_failures(answered)
    data = next((answer.dataset for answer in answered.values() if answer.dataset), None)
    return SavedList(
        machine=_machine(),
        settings={**participants.base_settings, **participants.request.settings},
        data=data.name if data else "",
        digest=data.digest if data else "",
        saved=tuple(saved for saved in places if saved.participant in participants.members),
    )


def _load(
    participants: Participants,
    listed: SavedList,
    folder: Path,
    trainers: ParityTrainers,
    report: Report,
    tolerance: float | None,
) -> tuple[ParityPair, ...]:
    """Have all participants load the weights that all have saved of their cell."""
    wanted = {
        participant: [s for s in listed.saved if comparable(s.participant, participant)]
        for participant in participants.members
    }
    requests = [
        _request("compare", participant, _loading(participants, participant, listed, saved, folder))
        for participant, saved in wanted.items()
        if saved
    ]
    answered = trainers.ask(requests, _progress(report, len(requests), "loaded"))
    participants.drop_failures(answered)
    return tuple(
        ParityPair(
            saved.participant,
            participant,
            comparison.difference,
            comparison.exact,
            tolerance or tolerance_of(saved.participant, participant),
        )
        for participant, answer in answered.items()
        if answer.reason is None
        for saved, comparison in zip(
            wanted[participant], OUTPUT_COMPARISONS.validate_json(answer.texts[ANSWER]), strict=True
        )
    )


def _saving(participants: Participants, saved: Saved, folder: Path) -> SaveRequest:
    return SaveRequest(settings=participants.settings(saved.cell), into=saved.files(folder))


def _loading(
    participants: Participants,
    participant: Participant,
    listed: SavedList,
    saved: Sequence[Saved],
    folder: Path,
) -> LoadRequest:
    return LoadRequest(
        settings=participants.settings(participant.cell),
        digest=listed.digest,
        saved=[entry.files(folder) for entry in saved],
    )


def _request(
    function: str, participant: Participant, asked: SaveRequest | LoadRequest, seed: int = 0
) -> tuple[Participant, TrialRequest]:
    return participant, TrialRequest(
        f"workloads.tasks.parity:{function}",
        str(participant.implementation),
        asked.model_dump(mode="json"),
        participant.device,
        seed,
    )


def _progress(
    report: Report, total: int, done: str
) -> Callable[[Participant, RequestOutcome], None]:
    """Return a function that reports outcomes with their number."""
    finished: list[Participant] = []

    def report_outcome(participant: Participant, answer: RequestOutcome) -> None:
        finished.append(participant)
        result = done if answer.reason is None else f"FAILED: {answer.reason}"
        name = f"{participant.label}  {participant.cell}"
        report(f"{len(finished)}/{total}  {name}  {result}  ({answer.seconds:.0f} s)")

    return report_outcome


def _machine() -> str:
    """Return a text for this machine: `host (AMD EPYC, 2 CPUs)`."""
    nodes = this_machine()
    classes = "; ".join(hardware_class.name for hardware_class in hardware.classify(nodes))
    return f"{nodes[0].profile.hostname} ({classes})"


def _findings(
    participants: Participants,
    listed: SavedList,
    pairs: tuple[ParityPair, ...],
    *,
    saved_on: str | None = None,
    kept_in: Path | None = None,
) -> Findings:
    return Findings(
        machine=_machine(),
        saved_on=saved_on,
        kept_in=kept_in,
        data=listed.data,
        settings={**listed.settings, **participants.request.settings},
        saved=tuple(saved.participant for saved in listed.saved),
        pairs=pairs,
        failed=tuple(participants.failed),
        impossible=tuple(participants.impossible),
    )
