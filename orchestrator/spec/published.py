"""Results that were published elsewhere, to be shown beside those of a sweep: `published:`.

published:
  - source: who published it, and where
    implementation: tensorflow/cudnn      # as they would be named here, or in their own words
    hardware: Tesla P100
    config: {units: 128}                  # the sizes that it was measured at
    metrics: {fit_s: 39.82, val_accuracy: 0.985}
    note: what is known of its conditions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from orchestrator.core.criteria import PublishedRow
from orchestrator.spec.dimensions import Choice, Number
from orchestrator.spec.fields import MetricName, ParameterName, Strict, as_tuple

Text: TypeAlias = Annotated[str, StringConstraints(pattern=r"\S")]


class Published(Strict):
    """One row. Its metrics are named as ours, in our units."""

    source: Text
    implementation: Text
    hardware: Text
    config: Mapping[ParameterName, Choice] = Field(default_factory=dict)
    metrics: Annotated[Mapping[MetricName, Number], Field(min_length=1)]
    note: str = ""

    @property
    def row(self) -> PublishedRow:
        """The same as plain data."""
        fields: dict[str, Any] = self.model_dump()
        metrics = {name: float(value) for name, value in self.metrics.items()}
        return PublishedRow(**{**fields, "metrics": metrics})


PublishedRows: TypeAlias = Annotated[tuple[Published, ...], BeforeValidator(as_tuple)]

PUBLISHED_KEYS = tuple(Published.model_fields)
