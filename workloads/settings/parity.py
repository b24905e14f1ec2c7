"""What `orchestrator.diagnostics.parity` asks of `workloads.tasks.parity`, and what that
answers.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, TypeAdapter

from workloads.settings.image_rows import ImageRowsSettings


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SavedFiles(_Message):
    """Paths of what one implementation saved: a checkpoint, and its own outputs (`.npy`)."""

    weights: str
    outputs: str


class SaveRequest(_Message):
    """Train, and save there."""

    settings: ImageRowsSettings
    into: SavedFiles


class LoadRequest(_Message):
    """Load each of these, and compare. `digest` is that of the data which they are made from."""

    settings: ImageRowsSettings
    digest: str
    saved: list[SavedFiles]


class OutputComparison(_Message):
    """One checkpoint, as another implementation finds it.

    `difference` is the largest one between an output here and that of the saver, as a part of the
    saver's largest output; None where an output is not finite. `exact` tells whether the weights,
    once loaded, read back bit by bit as they were saved.
    """

    difference: float | None
    exact: bool


ANSWER = "compared.json"
"""The artifact that answers a `LoadRequest`: one `OutputComparison` for each entry of `saved`."""

OUTPUT_COMPARISONS: TypeAdapter[tuple[OutputComparison, ...]] = TypeAdapter(
    tuple[OutputComparison, ...]
)
