"""Requests of `orchestrator.diagnostics.parity` to `workloads.tasks.parity`, and the answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from workloads.settings.tasks import ImageRowsSettings

ANSWER = "compared.json"
"""The artifact that answers a `LoadRequest`: one `OutputComparison` for each entry of `saved`."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SavedFiles(_Message):
    """Paths of the files that an implementation saved: a checkpoint, and its outputs (`.npy`)."""

    weights: str
    outputs: str


class SaveRequest(_Message):
    """A request to train, and to save into these files."""

    settings: ImageRowsSettings
    into: SavedFiles


class LoadRequest(_Message):
    """A request to load these files and compare outputs; `digest` is that of the training data."""

    settings: ImageRowsSettings
    digest: str
    saved: list[SavedFiles]


class OutputComparison(_Message):
    """The comparison of a checkpoint that another implementation saved.

    `difference` is the largest difference between an output and the saved one, divided by the
    largest saved output; None if an output is not finite. `exact` is True if the loaded weights
    read back bit by bit as they were saved.
    """

    difference: float | None
    exact: bool


OUTPUT_COMPARISONS = TypeAdapter(tuple[OutputComparison, ...])
