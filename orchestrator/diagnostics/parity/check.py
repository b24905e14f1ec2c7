"""The check itself: every participant trains and saves, then all load what all have saved."""

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


def devices() -> tuple[Device, ...]:
    """Of this machine; the GPU last."""
    return ("cpu", "gpu") if hardware.probe().gpus else ("cpu",)


def check(request: ParityRequest, tell: Report, tolerance: float | None = None) -> Findings:
    """Save and load on this machine, through a temporary folder.

    Args:
        request: what is asked.
        tell: is given a line for each step that is done, in some thread.
        tolerance: in place of those by precision.

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
        listed = _save(participants, folder, trainers, tell)
        found = _load(participants, listed, folder, trainers, tell, tolerance)
    return _findings(participants, listed, found)


def save(request: ParityRequest, folder: Path, tell: Report) -> Findings:
    """Only save, into a folder that can be carried to another machine; no pairs are found.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or the folder cannot be one.
    """
    participants = Participants.of(request, request.cells(), USUAL)
    participants.expect(1)
    folder = weights_folder.make(folder)
    with ParityTrainers() as trainers:
        listed = _save(participants, folder, trainers, tell)
    weights_folder.write(folder, listed)
    return _findings(participants, listed, (), kept_in=folder)


def load(
    request: ParityRequest, folder: Path, tell: Report, tolerance: float | None = None
) -> Findings:
    """Load what `save` has saved, here or on another machine, and compare.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or nothing was saved there.
    """
    listed = weights_folder.read(folder)
    cells = [cell for cell in request.cells() if listed.of(cell)]
    if not cells:
        kept = ", ".join(dict.fromkeys(each.cell for each in listed.saved))
        raise Refusal(f"--set cell: expected one that was saved in {folder} ({kept})")
    participants = Participants.of(request, cells, listed.settings)
    participants.expect(1)
    with ParityTrainers() as trainers:
        found = _load(participants, listed, folder.resolve(), trainers, tell, tolerance)
    return _findings(participants, listed, found, saved_on=listed.machine)


def _save(
    participants: Participants, folder: Path, trainers: ParityTrainers, tell: Report
) -> SavedList:
    """Each participant trains from a start of its own, so that no two have the same weights."""
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
        _request("save", each.participant, _saving(participants, each, folder), seed=number)
        for number, each in enumerate(places)
    ]
    answered = trainers.ask(requests, _progress(tell, len(requests), "saved"))
    participants.keep(answered)
    data = next((answer.dataset for answer in answered.values() if answer.dataset), None)
    return SavedList(
        machine=_machine(),
        settings={**participants.base_settings, **participants.request.settings},
        data=data.name if data else "",
        digest=data.digest if data else "",
        saved=tuple(each for each in places if each.participant in participants.members),
    )


def _load(
    participants: Participants,
    listed: SavedList,
    folder: Path,
    trainers: ParityTrainers,
    tell: Report,
    tolerance: float | None,
) -> tuple[ParityPair, ...]:
    """Each participant loads what every participant has saved of its cell."""
    wanted = {
        participant: [each for each in listed.saved if comparable(each.participant, participant)]
        for participant in participants.members
    }
    requests = [
        _request("compare", participant, _loading(participants, participant, listed, those, folder))
        for participant, those in wanted.items()
        if those
    ]
    answered = trainers.ask(requests, _progress(tell, len(requests), "loaded"))
    participants.keep(answered)
    return tuple(
        ParityPair(
            each.participant,
            participant,
            found.difference,
            found.exact,
            tolerance or tolerance_of(each.participant, participant),
        )
        for participant, answer in answered.items()
        if answer.reason is None
        for each, found in zip(
            wanted[participant], OUTPUT_COMPARISONS.validate_json(answer.texts[ANSWER]), strict=True
        )
    )


def _saving(participants: Participants, each: Saved, folder: Path) -> SaveRequest:
    return SaveRequest(settings=participants.settings(each.cell), into=each.files(folder))


def _loading(
    participants: Participants,
    participant: Participant,
    listed: SavedList,
    those: Sequence[Saved],
    folder: Path,
) -> LoadRequest:
    return LoadRequest(
        settings=participants.settings(participant.cell),
        digest=listed.digest,
        saved=[each.files(folder) for each in those],
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


def _progress(tell: Report, total: int, done: str) -> Callable[[Participant, RequestOutcome], None]:
    """Tells of answers, counted."""
    heard: list[Participant] = []

    def hear(participant: Participant, answer: RequestOutcome) -> None:
        heard.append(participant)
        how = done if answer.reason is None else f"FAILED: {answer.reason}"
        name = f"{participant.label}  {participant.cell}"
        tell(f"{len(heard)}/{total}  {name}  {how}  ({answer.seconds:.0f} s)")

    return hear


def _machine() -> str:
    """This machine in words: `host (AMD EPYC, 2 CPUs)`."""
    nodes = this_machine()
    classes = "; ".join(each.name for each in hardware.classify(nodes))
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
        saved=tuple(each.participant for each in listed.saved),
        pairs=pairs,
        failed=tuple(participants.failed),
        impossible=tuple(participants.impossible),
    )
