"""A folder of weights and outputs that implementations saved, with a list of its files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics.parity.request import Participant
from workloads.eligibility import Cell
from workloads.implementations import parse_implementation
from workloads.protocol import Device
from workloads.settings.parity import SavedFiles

LIST = "parity.json"

_FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Saved(_Record):
    """The names of one participant's files in the folder."""

    implementation: str
    device: Device
    cell: Cell
    weights: _FileName
    outputs: _FileName

    @property
    def participant(self) -> Participant:
        """The participant that saved them."""
        return Participant(parse_implementation(self.implementation), self.device, self.cell)

    def files(self, folder: Path) -> SavedFiles:
        """Return the paths of the files."""
        return SavedFiles(weights=str(folder / self.weights), outputs=str(folder / self.outputs))


class SavedList(_Record):
    """Everything that one machine saved; the outputs are for the data of `digest`."""

    format: Literal["rnnsweep-parity-weights"] = "rnnsweep-parity-weights"
    version: Literal[1] = 1
    machine: str
    settings: dict[str, Any]
    data: str
    digest: str
    saved: tuple[Saved, ...]

    def of(self, cell: Cell) -> tuple[Saved, ...]:
        """Return what was saved of that cell."""
        return tuple(saved for saved in self.saved if saved.cell == cell)


def file_names(participant: Participant, number: int) -> dict[str, str]:
    """Return names for a participant's weights and outputs; the number makes them unique."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{participant.cell} {number} {participant.label}".lower())
    return {"weights": f"{words}.npz", "outputs": f"{words}.outputs.npy"}


def make(folder: Path) -> Path:
    """Make the folder if it is missing, and return its absolute path.

    Raises:
        Refusal: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"--save: expected a folder, or a place to make one; received {folder}:"
            f" {(error.strerror or str(error)).lower()}"
        ) from error
    return folder.resolve()


def write(folder: Path, listed: SavedList) -> None:
    """Write the list, once all files that it names exist."""
    (folder / LIST).write_text(json.dumps(listed.model_dump(), indent=2) + "\n")


def read(folder: Path) -> SavedList:
    """Read the list.

    Raises:
        Refusal: the folder has none, or one that cannot be read.
    """
    path = folder / LIST
    try:
        listed = SavedList.model_validate_json(path.read_bytes())
        implementations = [parse_implementation(saved.implementation) for saved in listed.saved]
    except OSError as error:
        raise Refusal(
            f"--load: expected a folder that `rnnsweep parity --save` made; {path}:"
            f" {(error.strerror or str(error)).lower()}"
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise Refusal(
            f"{path}: {where}: {first['msg']}. Save again with this version of rnnsweep"
        ) from error
    except ValueError as error:
        raise Refusal(f"{path}: {error}") from error
    if not implementations:
        raise Refusal(f"{path}: expected saved weights; received none")
    return listed
