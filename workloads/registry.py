"""Workloads by name: settings, metrics, and the place of their code, which is not imported."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workloads.data.sources import data_digest
from workloads.layer_traits import LayerTraits
from workloads.metrics import metrics_of
from workloads.settings import (
    CharRnnSettings,
    ImageRowsSettings,
    NextTokenSettings,
    SentimentSettings,
    StackSettings,
    SyntheticSettings,
)

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class UnknownWorkload(ValueError):
    """A name that is neither a built-in workload nor of the form `package.module:function`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A task that a trial trains, built in or a user's own.

    `settings_model` is None for a user's own: it takes any settings and names of implementations,
    reports any metrics, and the digest of its data is unknown before a trial. `data_settings`
    decide the data, and are equal in all trials of a sweep. `work_settings` decide the amount of
    work, which may differ on slow hardware. `metrics` are all that a trial may end with: those that
    the workload returns, the seconds of its phases, and the memory of its trainer.
    """

    name: str
    entry: str
    summary: str
    settings_model: type[StackSettings] | None = None
    data_settings: tuple[str, ...] = ()
    work_settings: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        """True if settings and implementations can be checked before a trial."""
        return self.settings_model is not None

    def resolve(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Validate settings and add defaults, or raise pydantic's error; pass a user's own."""
        if self.settings_model is None:
            return dict(settings)
        return self.settings_model.model_validate(dict(settings)).model_dump()

    def accepts(self, settings: Mapping[str, Any]) -> bool:
        """Return True if `resolve` accepts the settings."""
        try:
            self.resolve(settings)
        except ValidationError:
            return False
        return True

    def traits(self, settings: Mapping[str, Any]) -> LayerTraits:
        """Return the traits that decide which kernel may run; defaults for a user's workload."""
        if self.settings_model is None:
            return LayerTraits()
        return self.settings_model.model_validate(dict(settings)).traits()

    def data_digest(self, settings: Mapping[str, Any]) -> str | None:
        """Return the SHA-256 of the data; None if unknown, `DataError` if it is missing here."""
        if not self.data_settings:
            return None
        resolved = self.resolve(settings)
        return data_digest(*(resolved[name] for name in self.data_settings))


def find_workload(name: str) -> Workload:
    """Return a built-in workload or `package.module:function`, or raise `UnknownWorkload`."""
    built_in = {workload.name: workload for workload in BUILT_IN}
    if name in built_in:
        return built_in[name]
    if _OWN.fullmatch(name):
        return Workload(name, entry=name, summary="a workload of your own")
    near = difflib.get_close_matches(name, built_in, n=1)
    raise UnknownWorkload(
        f"workload: expected one of {', '.join(built_in)}, or package.module:function;"
        f" received {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def explain_invalid_settings(error: ValidationError) -> str:
    """Return one line for all faults of some settings: place, expected value, received value."""
    return "; ".join(
        f"{'.'.join(['settings', *map(str, fault['loc'])])}: {fault['msg']}; received"
        f" {fault['input']!r:.200}"
        for fault in error.errors(include_url=False)
    )


def _training(
    name: str, summary: str, model: type[StackSettings], work: tuple[str, ...] = ()
) -> Workload:
    return Workload(
        name,
        f"workloads.tasks.training:{name}",
        summary,
        model,
        ("dataset", "data_path"),
        ("epochs", "timed_steps", "samples", "validation_samples", *work),
        metrics_of(name, trains=True),
    )


BUILT_IN: tuple[Workload, ...] = (
    _training(
        "image_rows",
        "classifies images whose rows are read as a sequence (digits, MNIST)",
        ImageRowsSettings,
    ),
    _training("next_token", "predicts the token that follows a window of text", NextTokenSettings),
    _training(
        "char_rnn",
        "a character-level language model, which writes a text after training",
        CharRnnSettings,
        ("sample_characters",),
    ),
    _training(
        "sentiment",
        "classifies reviews as good or bad: padded, masked, in both directions",
        SentimentSettings,
    ),
    Workload(
        "synthetic",
        "workloads.tasks.synthetic:run",
        "the recurrent layers alone, forward and both ways, on random input",
        SyntheticSettings,
        work_settings=("timed_steps",),
        metrics=metrics_of("synthetic", trains=False),
    ),
)
