"""The check itself: every side trains and saves, then every side loads what all have saved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator import hardware
from orchestrator.cluster.connection import this_machine
from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity import weights_folder
from orchestrator.diagnostics.parity.findings import Findings, Pair, comparable, tolerance_of
from orchestrator.diagnostics.parity.participants import Part
from orchestrator.diagnostics.parity.question import USUAL, Question, Side
from orchestrator.diagnostics.parity.trainers import Answer, Crew
from orchestrator.diagnostics.parity.weights_folder import Saved, SavedList
from workloads.protocol import Device, TrialRequest
from workloads.settings.parity import ANSWER, OUTPUT_COMPARISONS, LoadRequest, SaveRequest

Tell = Callable[[str], None]


def devices() -> tuple[Device, ...]:
    """Of this machine; the GPU last."""
    return ("cpu", "gpu") if hardware.probe().gpus else ("cpu",)


def check(question: Question, tell: Tell, tolerance: float | None = None) -> Findings:
    """Save and load on this machine, through a temporary folder.

    Args:
        question: what is asked.
        tell: is given a line for each step that is done, in some thread.
        tolerance: in place of those by precision.

    Raises:
        Refusal: the settings are wrong, or nothing can be compared here.
    """
    part = Part.of(question, question.cells(), USUAL)
    part.expect(2)
    with tempfile.TemporaryDirectory(prefix="rnnsweep-parity-") as name, Crew() as crew:
        folder = Path(name)
        listed = _save(part, folder, crew, tell)
        found = _load(part, listed, folder, crew, tell, tolerance)
    return _findings(part, listed, found)


def save(question: Question, folder: Path, tell: Tell) -> Findings:
    """Only save, into a folder that can be carried to another machine; no pairs are found.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or the folder cannot be one.
    """
    part = Part.of(question, question.cells(), USUAL)
    part.expect(1)
    folder = weights_folder.make(folder)
    with Crew() as crew:
        listed = _save(part, folder, crew, tell)
    weights_folder.write(folder, listed)
    return _findings(part, listed, (), kept_in=folder)


def load(question: Question, folder: Path, tell: Tell, tolerance: float | None = None) -> Findings:
    """Load what `save` has saved, here or on another machine, and compare.

    Raises:
        Refusal: the settings are wrong, nothing can run here, or nothing was saved there.
    """
    listed = weights_folder.read(folder)
    cells = [cell for cell in question.cells() if listed.of(cell)]
    if not cells:
        kept = ", ".join(dict.fromkeys(each.cell for each in listed.saved))
        raise Refusal(f"--set cell: expected one that was saved in {folder} ({kept})")
    part = Part.of(question, cells, listed.settings)
    part.expect(1)
    with Crew() as crew:
        found = _load(part, listed, folder.resolve(), crew, tell, tolerance)
    return _findings(part, listed, found, saved_on=listed.machine)


def _save(part: Part, folder: Path, crew: Crew, tell: Tell) -> SavedList:
    """Each side trains from a start of its own, so that no two have the same weights."""
    places = [
        Saved(
            implementation=side.arm.implementation,
            device=side.device,
            cell=side.cell,
            **weights_folder.file_names(side, number),
        )
        for number, side in enumerate(part.sides, 1)
    ]
    requests = [
        _request("save", each.side, _saving(part, each, folder), seed=number)
        for number, each in enumerate(places)
    ]
    answered = crew.ask(requests, _progress(tell, len(requests), "saved"))
    part.keep(answered)
    data = next((answer.dataset for answer in answered.values() if answer.dataset), None)
    return SavedList(
        machine=_machine(),
        settings={**part.beneath, **part.question.settings},
        data=data.name if data else "",
        digest=data.digest if data else "",
        saved=tuple(each for each in places if each.side in part.sides),
    )


def _load(
    part: Part, listed: SavedList, folder: Path, crew: Crew, tell: Tell, tolerance: float | None
) -> tuple[Pair, ...]:
    """Each side loads what every side has saved of its cell."""
    wanted = {
        side: [each for each in listed.saved if comparable(each.side, side)] for side in part.sides
    }
    requests = [
        _request("compare", side, _loading(part, side, listed, those, folder))
        for side, those in wanted.items()
        if those
    ]
    answered = crew.ask(requests, _progress(tell, len(requests), "loaded"))
    part.keep(answered)
    return tuple(
        Pair(
            each.side,
            side,
            found.difference,
            found.exact,
            tolerance or tolerance_of(each.side, side),
        )
        for side, answer in answered.items()
        if answer.reason is None
        for each, found in zip(
            wanted[side], OUTPUT_COMPARISONS.validate_json(answer.texts[ANSWER]), strict=True
        )
    )


def _saving(part: Part, each: Saved, folder: Path) -> SaveRequest:
    return SaveRequest(settings=part.settings(each.cell), into=each.files(folder))


def _loading(
    part: Part, side: Side, listed: SavedList, those: Sequence[Saved], folder: Path
) -> LoadRequest:
    return LoadRequest(
        settings=part.settings(side.cell),
        digest=listed.digest,
        saved=[each.files(folder) for each in those],
    )


def _request(
    function: str, side: Side, asked: SaveRequest | LoadRequest, seed: int = 0
) -> tuple[Side, TrialRequest]:
    return side, TrialRequest(
        f"workloads.tasks.parity:{function}",
        side.arm.implementation,
        asked.model_dump(mode="json"),
        side.device,
        seed,
    )


def _progress(tell: Tell, total: int, done: str) -> Callable[[Side, Answer], None]:
    """Tells of answers, counted."""
    heard: list[Side] = []

    def hear(side: Side, answer: Answer) -> None:
        heard.append(side)
        how = done if answer.reason is None else f"FAILED: {answer.reason}"
        tell(f"{len(heard)}/{total}  {side.arm}  {side.cell}  {how}  ({answer.seconds:.0f} s)")

    return hear


def _machine() -> str:
    """This machine in words: `host (AMD EPYC, 2 CPUs)`."""
    nodes = this_machine()
    classes = "; ".join(each.name for each in hardware.classify(nodes))
    return f"{nodes[0].profile.hostname} ({classes})"


def _findings(
    part: Part,
    listed: SavedList,
    pairs: tuple[Pair, ...],
    *,
    saved_on: str | None = None,
    kept_in: Path | None = None,
) -> Findings:
    return Findings(
        machine=_machine(),
        saved_on=saved_on,
        kept_in=kept_in,
        data=listed.data,
        settings={**listed.settings, **part.question.settings},
        saved=tuple(each.side for each in listed.saved),
        pairs=pairs,
        failed=tuple(part.failed),
        impossible=tuple(part.impossible),
    )
