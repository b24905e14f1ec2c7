"""The requests of `rnnsweep parity` to a trainer process, and its answer. Imports no framework."""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SaveRequest(_Message):
    """Settings of `parity:save`: train, then save `INTO.npz` (weights) and `INTO.outputs.npy`.

    `settings` are settings of the built-in `workload`.
    """

    workload: str
    settings: dict[str, Any]
    into: str


class LoadRequest(_Message):
    """Settings of `parity:compare_outputs`: the saved files and the digest of the training data."""

    workload: str
    settings: dict[str, Any]
    digest: str
    saved: list[str]


class OutputComparison(_Message):
    """The comparison of a checkpoint that another implementation saved.

    `difference` is the largest difference between an output and the saved one, divided by the
    largest saved output; None if an output is not finite. `exact` is True if the loaded weights
    read back bit by bit as they were saved.
    """

    difference: float | None
    exact: bool


OUTPUT_COMPARISONS = TypeAdapter(tuple[OutputComparison, ...])
ANSWER = "compared.json"
"""The artifact that answers a `LoadRequest`: one `OutputComparison` for each entry of `saved`."""
