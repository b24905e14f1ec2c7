"""Published results to be shown next to those of a sweep: `published:`.

published:
  - source: who published it, and where
    implementation: tensorflow/cudnn      # by the names used here, or in their own words
    hardware: Tesla P100
    config: {units: 128}                  # the sizes at which it was measured
    metrics: {fit_s: 39.82, val_accuracy: 0.985}
    note: its conditions, if they are known
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
    """One published row; its metrics have our names and units."""

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
