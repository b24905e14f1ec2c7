"""The check itself: implementations save weights and outputs, or load and compare saved ones."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator import hardware
from orchestrator.cluster.connection import this_machine
from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity.participants import (
    Excluded,
    Participant,
    find_participants,
    parse_implementations,
)
from orchestrator.diagnostics.parity.saved_outputs import (
    SavedOutputs,
    file_stem,
    make_folder,
    read_saved_outputs,
)
from orchestrator.execution.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import from_pydantic
from workloads.diagnostics import parity_request
from workloads.layer_traits import Cell
from workloads.protocol import Device, TrialRequest
from workloads.tasks.image_rows.settings import ImageRowsSettings

PARITY_WORKLOAD = "image_rows"
PARITY_SETTINGS: Mapping[str, Any] = {
    "units": 32,
    "layers": 2,
    "bidirectional": True,
    "dropout": 0.0,
    "batch_size": 64,
    "samples": 320,
    "validation_samples": 320,
    "epochs": 1,
    "learning_rate": 0.01,
}
"""Settings of image_rows that differ from its defaults.

The stack has everything that a conversion can get wrong, and steps enough that no weight is left
where it began.
"""


@dataclass(frozen=True, slots=True)
class ParityPair:
    """Weights of one participant, loaded by another; see `workloads.diagnostics.parity_request`."""

    saved: Participant
    loaded: Participant
    difference: float | None
    exact: bool
    tolerance: float

    @property
    def is_within(self) -> bool:
        """True if the outputs are within the tolerance and the weights exactly the same."""
        return self.exact and self.excess <= 1

    @property
    def excess(self) -> float:
        """The difference over the tolerance; infinite if an output is not finite."""
        return float("inf") if self.difference is None else self.difference / self.tolerance


@dataclass(slots=True)
class ParityCheck:
    """A check and its results so far: outputs that are saved, or pairs that are compared.

    `source` is what another run saved; without it this one saves. `settings` are the user's,
    over the usual settings or over the settings of the source.
    """

    settings: Mapping[str, Any]
    folder: Path
    participants: Sequence[Participant]
    source: SavedOutputs | None = None
    tolerance: float | None = None
    data: str = ""
    saved: list[Participant] = field(default_factory=list)
    pairs: list[ParityPair] = field(default_factory=list)
    excluded: list[Excluded] = field(default_factory=list)
    finished: int = 0

    @property
    def is_complete(self) -> bool:
        """True once each participant has its result."""
        return self.finished == len(self.participants)

    @property
    def failed(self) -> list[Excluded]:
        """Those that could have run."""
        return [excluded for excluded in self.excluded if excluded.failed_on is not None]

    @property
    def is_good(self) -> bool:
        """True if all participants have results, none failed, and all pairs are within."""
        has_results = bool(self.pairs if self.source else self.saved)
        all_within = all(pair.is_within for pair in self.pairs)
        return self.is_complete and has_results and all_within and not self.failed

    def run(self, report: Callable[[str], object]) -> None:
        """Ask all participants, one after another.

        What is done when this is interrupted is kept: in this object, and in the folder.

        Args:
            report: Prints a line at the begin and at the end of each participant's work.
        """
        with _Trainers() as trainers:
            for number, participant in enumerate(self.participants):
                label = f"{number + 1}/{len(self.participants)}  {participant.label}"
                label += f"  {participant.cell}"
                if not trainers.has_warm(participant):
                    report(f"{label}  starting {participant.implementation.backend}")
                answer = trainers.ask(participant, self._request(number, participant))
                report(f"{label}  {self._take_answer(participant, answer)}")

    def _request(self, number: int, participant: Participant) -> TrialRequest:
        settings = _complete_settings(self.settings, participant.cell).model_dump()
        asked: BaseModel
        if self.source is None:
            function = "save"
            asked = parity_request.SaveRequest(
                workload=PARITY_WORKLOAD,
                settings=settings,
                into=file_stem(self.folder, participant),
            )
        else:
            function = "compare_outputs"
            asked = parity_request.LoadRequest(
                workload=PARITY_WORKLOAD,
                settings=settings,
                digest=self.source.digest,
                saved=[
                    file_stem(self.folder, saved) for saved in self._saved_with(participant.cell)
                ],
            )
        return TrialRequest(
            f"workloads.diagnostics.parity:{function}",
            str(participant.implementation),
            asked.model_dump(mode="json"),
            participant.device,
            seed=number,  # so that all weights differ
        )

    def _take_answer(self, participant: Participant, answer: TrainerAnswer) -> str:
        """Keep the results of a participant, and return them as words for people."""
        self.finished += 1
        time = f"({answer.seconds:.0f} s)"
        if answer.reason is not None:
            failed_on = None if answer.failure == "not_possible" else participant.device
            self.excluded.append(
                Excluded(participant.implementation, participant.cell, answer.reason, failed_on)
            )
            return f"FAILED: {answer.reason}  {time}"
        if self.source is None:
            self._add_saved(participant, answer)
            return f"saved  {time}"
        pairs = [*self._compared_pairs(participant, answer)]
        self.pairs += pairs
        different = sum(not pair.is_within for pair in pairs)
        return f"{f'{different} of {len(pairs)} differ' if different else 'equal'}  {time}"

    def _add_saved(self, participant: Participant, answer: TrainerAnswer) -> None:
        """Note what was saved, and write the list of the folder again."""
        self.saved.append(participant)
        self.data = answer.dataset.name if answer.dataset else ""
        SavedOutputs(
            machine=machine(),
            settings=dict(self.settings),
            data=self.data,
            digest=answer.dataset.digest if answer.dataset else "",
            saved=tuple(self.saved),
        ).write(self.folder)

    def _compared_pairs(
        self, participant: Participant, answer: TrainerAnswer
    ) -> Iterator[ParityPair]:
        compared = parity_request.OUTPUT_COMPARISONS.validate_json(
            answer.texts[parity_request.ANSWER]
        )
        for saved, result in zip(self._saved_with(participant.cell), compared, strict=True):
            tolerance = self.tolerance or saved.tolerance(participant)
            yield ParityPair(saved, participant, result.difference, result.exact, tolerance)

    def _saved_with(self, cell: Cell) -> list[Participant]:
        return [saved for saved in self.saved if saved.cell == cell]


def prepare_saving(names: Sequence[str], overrides: Sequence[str], folder: Path) -> ParityCheck:
    """Return a check that saves weights and outputs in a folder, or refuse.

    Args:
        names: Names of implementations; without names all that may run here.
        overrides: Settings of `image_rows`, as `KEY=VALUE`.
        folder: Is made where it does not exist.
    """
    settings, cells = _checked_settings(overrides, PARITY_SETTINGS, typing.get_args(Cell))
    participants, excluded = _participants(names, settings, cells)
    return ParityCheck(settings, make_folder(folder), participants, excluded=excluded)


def prepare_comparing(
    names: Sequence[str], overrides: Sequence[str], folder: Path, tolerance: float | None = None
) -> ParityCheck:
    """Return a check that loads what `prepare_saving` saved and compares outputs, or refuse.

    Args:
        names: Names of the implementations that load; without names all that may run here.
        overrides: Settings of `image_rows`, as `KEY=VALUE`, over the settings of the saved weights.
        folder: The folder with the saved weights and outputs.
        tolerance: Replaces the usual tolerance of each pair.
    """
    source = read_saved_outputs(folder)
    saved_cells = tuple(dict.fromkeys(saved.cell for saved in source.saved))
    settings, cells = _checked_settings(overrides, source.settings, saved_cells)
    if not set(cells) <= set(saved_cells):
        known = ", ".join(saved_cells)
        raise Refusal(f"--set cell: expected one that was saved in {folder} ({known})")
    participants, excluded = _participants(names, settings, cells)
    return ParityCheck(
        settings,
        folder.resolve(),
        participants,
        source,
        tolerance,
        data=source.data,
        saved=[*source.saved],
        excluded=excluded,
    )


def _checked_settings(
    overrides: Sequence[str], usual: Mapping[str, Any], cells: tuple[Cell, ...]
) -> tuple[Mapping[str, Any], tuple[Cell, ...]]:
    """Return the settings with the overrides, and the cell that these choose, or all cells."""
    document = yaml_locations.parse_yaml(
        "{}", source="--set", overrides=overrides, example="cell=gru"
    )
    settings = {**usual, **document.data}
    chosen = document.data.get("cell")
    cells = cells if chosen is None else (chosen,)
    try:
        for cell in cells:
            _complete_settings(settings, cell)
    except ValidationError as error:
        raise document.refusal(from_pydantic(error, {(): ImageRowsSettings})) from None
    return settings, cells


def _participants(
    names: Sequence[str], settings: Mapping[str, Any], cells: Sequence[Cell]
) -> tuple[list[Participant], list[Excluded]]:
    return find_participants(
        parse_implementations(names),
        cells,
        lambda cell: _complete_settings(settings, cell).traits(),
    )


def _complete_settings(settings: Mapping[str, Any], cell: Cell) -> ImageRowsSettings:
    return ImageRowsSettings.model_validate({**settings, "cell": cell})


class _Trainers(AbstractContextManager["_Trainers"]):
    """One warm trainer per backend and device, until the end of the block."""

    def __init__(self) -> None:
        self._trainers: dict[tuple[str, Device], TrainerProcess] = {}

    def __exit__(self, *raised: object) -> None:
        while self._trainers:
            self._trainers.popitem()[1].close()

    def has_warm(self, participant: Participant) -> bool:
        return _place(participant) in self._trainers

    def ask(self, participant: Participant, request: TrialRequest) -> TrainerAnswer:
        place = _place(participant)
        if place not in self._trainers:
            self._trainers[place] = TrainerProcess(participant.implementation, participant.device)
        answer = ask_trainer(self._trainers[place], request)
        if not answer.is_usable:
            self._trainers.pop(place).close()
        return answer


def _place(participant: Participant) -> tuple[str, Device]:
    return participant.implementation.backend, participant.device


def machine() -> str:
    """Return a text for this machine: `host (AMD EPYC, 2 CPUs)`."""
    nodes = this_machine()
    classes = "; ".join(item.name for item in hardware.classify(nodes))
    return f"{nodes[0].profile.hostname} ({classes})"
