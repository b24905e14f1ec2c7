"""The check itself: all participants train and save, then all load the weights of all."""

from __future__ import annotations

import itertools
import re
import tempfile
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, ValidationError

from orchestrator import hardware
from orchestrator.cluster.connection import this_machine
from orchestrator.core.errors import Refusal, first_problem
from orchestrator.diagnostics.trainer_answers import TrainerAnswer, ask_trainer
from orchestrator.diagnostics.workload_catalogue import PLAIN
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import from_pydantic
from workloads.backends.registry import backends, parse_known_implementation
from workloads.diagnostics import parity_request
from workloads.eligibility import ineligibility_reason
from workloads.implementations import Implementation, ImplementationError, Precision
from workloads.layer_traits import Cell, LayerTraits
from workloads.protocol import Device, TrialRequest
from workloads.tasks.image_rows.settings import ImageRowsSettings

LIST = "parity.json"
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

TOLERANCES: Mapping[Precision, float] = {"float32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 3e-2}
"""The largest relative differences explained by rounding alone, by the coarser precision.

Observed between two-layer stacks on digits: 4e-7 in float32, 6e-4 in float16 and 5e-3 in bfloat16.
TF32 keeps as many bits of a factor as float16. Gates in another order, a transposed matrix or a
lost bias differ by more than 1e-3 in float32.
"""


def _parsed(name: Any) -> Implementation:
    return parse_known_implementation(str(name))


class Participant(BaseModel):
    """An implementation on a device with one cell: it saves weights and loads those of others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    implementation: Annotated[Implementation, PlainValidator(_parsed), PlainSerializer(str)]
    device: Device
    cell: Cell

    @property
    def label(self) -> str:
        """Implementation and device, as shown to people."""
        return f"{self.implementation} on {self.device}"

    def tolerance(self, loader: Participant) -> float:
        """Return the tolerance of the coarser of the two precisions."""
        return max(
            TOLERANCES[participant.implementation.precision] for participant in (self, loader)
        )


@dataclass(frozen=True, slots=True)
class Excluded:
    """An implementation without results for a cell: it failed on a device, or runs on none."""

    implementation: Implementation
    cell: Cell
    reason: str
    failed_on: Device | None = None


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


class SavedList(BaseModel):
    """Everything that one machine saved; the outputs are for the data of `digest`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["rnnsweep-parity-weights"] = "rnnsweep-parity-weights"
    version: Literal[2] = 2
    machine: str
    settings: dict[str, Any]
    data: str
    digest: str
    saved: tuple[Participant, ...]


@dataclass(slots=True)
class ParityCheck(AbstractContextManager["ParityCheck"]):
    """A check with its results so far, and one warm trainer per backend and device until its end.

    `settings` are those of the user over the usual ones, or over those of the loaded weights.
    `kept_in` is the folder of weights that are only saved, `loaded` the list of another run's.
    """

    settings: Mapping[str, Any]
    report: Callable[[str], object] = str
    kept_in: Path | None = None
    loaded: SavedList | None = None
    data: str = ""
    saved: tuple[Participant, ...] = ()
    pairs: list[ParityPair] = field(default_factory=list)
    excluded: list[Excluded] = field(default_factory=list)
    _trainers: dict[tuple[str, Device], TrainerProcess] = field(default_factory=dict)

    def __exit__(self, *raised: object) -> None:
        """End all trainers."""
        while self._trainers:
            self._trainers.popitem()[1].close()

    @property
    def failed(self) -> list[Excluded]:
        """Those that could have run."""
        return [excluded for excluded in self.excluded if excluded.failed_on is not None]

    @property
    def across(self) -> list[ParityPair]:
        """The pairs whose weights were loaded by another one than saved them."""
        return [pair for pair in self.pairs if self.loaded or pair.saved != pair.loaded]

    @property
    def is_good(self) -> bool:
        """True if at least one pair was compared across, all are within and none failed.

        If weights were only saved: whether there are any and none are missing.
        """
        has_results = bool(self.saved if self.kept_in else self.across)
        return has_results and all(pair.is_within for pair in self.pairs) and not self.failed

    def settings_of(self, cell: Cell) -> ImageRowsSettings:
        """Return the complete settings of a cell."""
        return ImageRowsSettings.model_validate({**self.settings, "cell": cell})

    def find_participants(
        self, implementations: Sequence[Implementation], cells: Sequence[Cell], at_least: int
    ) -> list[Participant]:
        """Return what can run some cells on each device here; refuse fewer than that number."""
        participants, here = list[Participant](), devices()
        for cell, implementation in itertools.product(cells, implementations):
            traits = self.settings_of(cell).traits()
            reasons = {
                device: ineligibility_reason(implementation, traits, device) for device in here
            }
            participants += [
                Participant(implementation=implementation, device=device, cell=cell)
                for device in here
                if reasons[device] is None
            ]
            if None not in reasons.values():
                self.excluded.append(Excluded(implementation, cell, str(reasons[here[-1]])))
        per_cell = Counter(participant.cell for participant in participants)
        if max(per_cell[cell] for cell in cells) < at_least:
            labels = ", ".join(dict.fromkeys(participant.label for participant in participants))
            missing = sorted(
                {f"\n  {excluded.implementation}: {excluded.reason}" for excluded in self.excluded}
            )
            raise Refusal(
                f"nothing to compare: expected at least {at_least} of the implementations on "
                f"some device here; received {labels or 'none'}{''.join(missing)}"
            )
        return participants

    def save(self, participants: Sequence[Participant], folder: Path) -> SavedList:
        """Train and save all participants, each with its own seed, so that all weights differ."""
        requests = {}
        for number, participant in enumerate(participants):
            settings = self.settings_of(participant.cell)
            asked = parity_request.SaveRequest(
                workload=PARITY_WORKLOAD,
                settings=settings.model_dump(),
                into=_stem(folder, participant),
            )
            requests[participant] = _request("save", participant, asked, seed=number)
        answers = self._ask(requests, "saved")
        data = next((answer.dataset for answer in answers.values() if answer.dataset), None)
        return SavedList(
            machine=machine(),
            settings=dict(self.settings),
            data=data.name if data else "",
            digest=data.digest if data else "",
            saved=tuple(answers),
        )

    def load(
        self,
        participants: Sequence[Participant],
        listed: SavedList,
        folder: Path,
        tolerance: float | None,
    ) -> None:
        """Have all participants load the weights that all have saved of their cell."""
        requests, wanted = {}, {}
        for participant in participants:
            wanted[participant] = [
                saved for saved in listed.saved if saved.cell == participant.cell
            ]
            if wanted[participant]:
                asked = parity_request.LoadRequest(
                    workload=PARITY_WORKLOAD,
                    settings=self.settings_of(participant.cell).model_dump(),
                    digest=listed.digest,
                    saved=[_stem(folder, saved) for saved in wanted[participant]],
                )
                requests[participant] = _request("compare_outputs", participant, asked)
        for participant, answer in self._ask(requests, "loaded").items():
            compared = parity_request.OUTPUT_COMPARISONS.validate_json(
                answer.texts[parity_request.ANSWER]
            )
            for saved, result in zip(wanted[participant], compared, strict=True):
                limit = tolerance or saved.tolerance(participant)
                self.pairs.append(
                    ParityPair(saved, participant, result.difference, result.exact, limit)
                )

    def _ask(
        self, requests: Mapping[Participant, TrialRequest], done: str
    ) -> dict[Participant, TrainerAnswer]:
        """Return the answers of those that succeeded; exclude the others."""
        answers: dict[Participant, TrainerAnswer] = {}
        for number, (participant, request) in enumerate(requests.items(), 1):
            answer, result = self._answer(participant, request), done
            if answer.reason is None:
                answers[participant] = answer
            else:
                result = f"FAILED: {answer.reason}"
                failed_on = None if answer.failure == "not_possible" else participant.device
                excluded = Excluded(
                    participant.implementation, participant.cell, answer.reason, failed_on
                )
                self.excluded.append(excluded)
            label = f"{number}/{len(requests)}  {participant.label}  {participant.cell}"
            self.report(f"{label}  {result}  ({answer.seconds:.0f} s)")
        return answers

    def _answer(self, participant: Participant, request: TrialRequest) -> TrainerAnswer:
        key = participant.implementation.backend, participant.device
        trainer = self._trainers.get(key)
        if trainer is None:
            trainer = self._trainers[key] = TrainerProcess(
                participant.implementation, participant.device
            )
        answer = ask_trainer(trainer, request)
        if not answer.is_usable:
            self._trainers.pop(key).close()
        return answer


def devices() -> tuple[Device, ...]:
    """Return the devices of this machine, the GPU last."""
    return ("cpu", "gpu") if hardware.probe().gpus else ("cpu",)


def check(
    names: Sequence[str],
    overrides: Sequence[str],
    report: Callable[[str], object],
    *,
    into: Path | None = None,
    source: Path | None = None,
    tolerance: float | None = None,
) -> ParityCheck:
    """Save and load weights on this machine, and compare the outputs of all pairs, or refuse.

    Without names all implementations take part that may run here; `overrides` are settings of
    `image_rows`. `report` prints a line for each finished step. Weights are only saved `into` a
    folder, or only loaded from a `source`. The tolerance replaces the usual ones.
    """
    document = yaml_locations.parse_yaml(
        "{}", source="--set", overrides=overrides, example="cell=gru"
    )
    loaded = None if source is None else _read_list(source / LIST)
    settings = {**(loaded.settings if loaded else PARITY_SETTINGS), **document.data}
    chosen = document.data.get("cell")
    cells = typing.get_args(Cell) if chosen is None else (chosen,)
    if loaded:
        kept = dict.fromkeys(saved.cell for saved in loaded.saved)
        cells = tuple(cell for cell in cells if cell in kept)
        if not cells:
            expected = f"expected one that was saved in {source} ({', '.join(kept)})"
            raise Refusal(f"--set cell: {expected}")
    result = ParityCheck(settings, report, loaded=loaded)
    try:
        for cell in cells:
            result.settings_of(cell)
    except ValidationError as error:
        raise document.refusal(from_pydantic(error, {(): ImageRowsSettings})) from None
    at_least = 1 if into or source else 2
    participants = result.find_participants(_implementations(names), cells, at_least)
    if into is not None:
        result.kept_in = _made(into)
    with tempfile.TemporaryDirectory(prefix="rnnsweep-parity-") as scratch, result:
        folder = (result.kept_in or source or Path(scratch)).resolve()
        listed = loaded or result.save(participants, folder)
        result.data, result.saved = listed.data, listed.saved
        if into is None:
            loaders = participants if loaded else listed.saved
            result.load(loaders, listed, folder, tolerance)
    if into is not None:
        (folder / LIST).write_text(listed.model_dump_json(indent=2) + "\n")
    return result


def _implementations(names: Sequence[str]) -> tuple[Implementation, ...]:
    """Return the named ones; by default each backend with each kernel, also with XLA."""
    if not names:
        compiled = (Implementation(name, "portable", ("xla",)) for name in backends())
        return (*PLAIN, *filter(_takes_options, compiled))
    try:
        return tuple(dict.fromkeys(map(parse_known_implementation, names)))
    except ImplementationError as error:
        raise Refusal(f"IMPLEMENTATION: {error}") from None


def _takes_options(implementation: Implementation) -> bool:
    """Return True if usual layers run with these options on a GPU, whatever is installed."""
    usual = LayerTraits()
    return ineligibility_reason(implementation, usual, "gpu", has_package=lambda _: True) is None


def _request(
    function: str, participant: Participant, asked: BaseModel, seed: int = 0
) -> TrialRequest:
    return TrialRequest(
        f"workloads.diagnostics.parity:{function}",
        str(participant.implementation),
        asked.model_dump(mode="json"),
        participant.device,
        seed,
    )


def _stem(folder: Path, participant: Participant) -> str:
    """Return the path of a participant's files, without their endings."""
    return str(
        folder / re.sub(r"[^a-z0-9]+", "-", f"{participant.cell} {participant.label}".lower())
    )


def machine() -> str:
    """Return a text for this machine: `host (AMD EPYC, 2 CPUs)`."""
    nodes = this_machine()
    classes = "; ".join(item.name for item in hardware.classify(nodes))
    return f"{nodes[0].profile.hostname} ({classes})"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"--save: expected a folder, or a place to make one; received {folder}:"
            f" {(error.strerror or str(error)).lower()}"
        ) from error
    return folder.resolve()


def _read_list(path: Path) -> SavedList:
    try:
        listed = SavedList.model_validate_json(path.read_bytes())
    except OSError as error:
        raise Refusal(
            f"--load: expected a folder that `rnnsweep parity --save` made; {path}:"
            f" {(error.strerror or str(error)).lower()}"
        ) from error
    except ValidationError as error:
        cure = "Save again with this version of rnnsweep"
        raise Refusal(f"{path}: {first_problem(error)}. {cure}") from error
    if not listed.saved:
        raise Refusal(f"{path}: expected saved weights; received none")
    return listed
