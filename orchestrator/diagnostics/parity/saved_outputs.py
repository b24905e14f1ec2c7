"""The folder that `rnnsweep parity --save` makes: weights, outputs, and a list of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.core.errors import Refusal, first_problem
from orchestrator.diagnostics.parity.participants import Participant
from workloads.data.cache import atomic_write

LIST = "parity.json"


class SavedOutputs(BaseModel):
    """Everything that one machine saved; the outputs are for the data of `digest`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["rnnsweep-parity-weights"] = "rnnsweep-parity-weights"
    version: Literal[2] = 2
    machine: str
    settings: dict[str, Any]
    data: str
    digest: str
    saved: tuple[Participant, ...]

    def write(self, folder: Path) -> None:
        """Write the list; what was saved by then can be loaded, even if the rest never is."""
        try:
            with atomic_write(folder / LIST) as file:
                file.write(f"{self.model_dump_json(indent=2)}\n".encode())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Refusal(f"{folder / LIST}: cannot be written: {reason}") from error


def make_folder(folder: Path) -> Path:
    """Make the folder of `--save`, or refuse."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"--save: expected a folder, or a place to make one; received {folder}:"
            f" {(error.strerror or str(error)).lower()}"
        ) from error
    return folder.resolve()


def read_saved_outputs(folder: Path) -> SavedOutputs:
    """Read the list of the folder of `--load`, or refuse."""
    path = folder / LIST
    try:
        listed = SavedOutputs.model_validate_json(path.read_bytes())
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


def file_stem(folder: Path, participant: Participant) -> str:
    """Return the path of a participant's files, without their endings."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{participant.cell} {participant.label}".lower())
    return str(folder / name)
