"""Workloads by name: settings, metrics, and the place of their code, which is not imported."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workloads.layer_traits import LayerTraits
from workloads.metrics import metrics_of
from workloads.settings import TaskSettings, check_settings
from workloads.tasks.char_rnn.settings import CharRnnSettings
from workloads.tasks.image_rows.settings import ImageRowsSettings
from workloads.tasks.next_token.settings import NextTokenSettings
from workloads.tasks.sentiment.settings import SentimentSettings
from workloads.tasks.synthetic.settings import SyntheticSettings
from workloads.tasks.training_settings import TrainingSettings

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class UnknownWorkload(ValueError):
    """A name that is neither a built-in workload nor of the form `package.module:function`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload as the orchestrator sees it, built in or a user's own.

    `entry` is the place of its task or function (`package.module:NAME`), which trainers import.
    `settings_model` is None for a user's own: it takes any settings and names of implementations,
    reports any metrics, and the digest of its data is unknown before a trial.
    """

    name: str
    entry: str
    summary: str
    settings_model: type[TaskSettings] | None = None

    @property
    def is_built_in(self) -> bool:
        """True if settings and implementations can be checked before a trial."""
        return self.settings_model is not None

    @property
    def data_settings(self) -> tuple[str, ...]:
        """Settings that decide the data; they are equal in all trials of a sweep."""
        return () if self.settings_model is None else self.settings_model.data_settings

    @property
    def work_settings(self) -> tuple[str, ...]:
        """Settings that decide the amount of work, which may differ on slow hardware."""
        return () if self.settings_model is None else self.settings_model.work_settings

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that a trial of a built-in workload may end with; none are known of others.

        They include the seconds of its phases, and the memory of its trainer.
        """
        if self.settings_model is None:
            return ()
        return metrics_of(self.name, trains=issubclass(self.settings_model, TrainingSettings))

    def resolve(self, settings: Mapping[str, Any]) -> TaskSettings | None:
        """Return the checked settings with all defaults, or raise pydantic's `ValidationError`.

        None for a user's own workload, whose settings nobody can check here. Equal settings are
        checked once in a process.
        """
        if self.settings_model is None:
            return None
        return check_settings(self.settings_model, settings)

    def accepts(self, settings: Mapping[str, Any]) -> bool:
        """Return True if `resolve` accepts the settings."""
        try:
            self.resolve(settings)
        except ValidationError:
            return False
        return True

    def traits(self, settings: Mapping[str, Any]) -> LayerTraits:
        """Return the traits that decide which kernel may run; defaults for a user's workload."""
        resolved = self.resolve(settings)
        return (resolved.traits() if resolved else None) or LayerTraits()

    def data_digest(self, settings: Mapping[str, Any]) -> str | None:
        """Return the SHA-256 of the data; None if unknown, `DataError` if it is missing here."""
        resolved = self.resolve(settings)
        return resolved.data_digest() if resolved else None


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


BUILT_IN: tuple[Workload, ...] = (
    Workload(
        "image_rows",
        "workloads.tasks.image_rows.task:TASK",
        "classifies images whose rows are read as a sequence (digits, MNIST)",
        ImageRowsSettings,
    ),
    Workload(
        "next_token",
        "workloads.tasks.next_token.task:TASK",
        "predicts the token that follows a window of text",
        NextTokenSettings,
    ),
    Workload(
        "char_rnn",
        "workloads.tasks.char_rnn.task:TASK",
        "a character-level language model, which writes a text after training",
        CharRnnSettings,
    ),
    Workload(
        "sentiment",
        "workloads.tasks.sentiment.task:TASK",
        "classifies reviews as good or bad: padded, masked, in both directions",
        SentimentSettings,
    ),
    Workload(
        "synthetic",
        "workloads.tasks.synthetic.task:TASK",
        "the recurrent layers alone, forward and both ways, on random input",
        SyntheticSettings,
    ),
)
