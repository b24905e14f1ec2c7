"""Workloads by name: settings, metrics, and the entry of their code, which is not imported."""

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
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.sentiment.settings import SentimentSettings
from workloads.tasks.synthetic.settings import SyntheticSettings
from workloads.tasks.training_settings import TrainingSettings

ENTRY_PATTERN = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""The shape of the entry of a user's code: `package.module:NAME`."""

RANDOM_DATA = "random data"
"""In the name of the workload of an own model: there is no function that loads data."""

_OWN = re.compile(ENTRY_PATTERN)
_OWN_MODEL = re.compile(
    rf"(?P<model>{ENTRY_PATTERN}) with (?P<data>{ENTRY_PATTERN}|{RANDOM_DATA})"
    rf"(?: with (?P<callbacks>{ENTRY_PATTERN}))?"
)


class UnknownWorkload(ValueError):
    """A name that is neither a built-in workload nor of the form `package.module:function`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload as the orchestrator sees it: built in, a user's own function, or own model.

    `entry` names its task or function (`package.module:NAME`), which trainers import.
    `settings_model` is None for a user's own function: it takes any settings and names of
    implementations, reports any metrics, and the digest of its data is unknown before a trial.

    An own model has two or three functions instead: `model_entry` builds it, `data_entry` loads its
    data, which are random without it, and `callbacks_entry` makes the callbacks of its training.
    """

    name: str
    entry: str
    summary: str
    settings_model: type[TaskSettings] | None = None
    model_entry: str | None = None
    data_entry: str | None = None
    callbacks_entry: str | None = None

    @property
    def is_built_in(self) -> bool:
        """True for a workload of ours, whose settings, metrics and layers are known."""
        return self.settings_model is not None and self.model_entry is None

    @property
    def is_own_model(self) -> bool:
        """True for a user's `build`, whose model rnnsweep trains and times on any implementation.

        Its settings may have any names; its layers, metrics and data are known once it is built.
        """
        return self.model_entry is not None

    @property
    def names_own_implementations(self) -> bool:
        """True for a user's function (or task), which chooses the names of its implementations."""
        return self.settings_model is None

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries of its code."""
        own = (self.model_entry or self.entry, self.data_entry, self.callbacks_entry)
        return tuple(filter(None, own))

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
        """All metrics that a trial of a built-in workload may end with, or of an own model.

        They include the seconds of its phases, and the memory of its trainer. What an own model is
        compiled with comes to them; of a user's function none are known.
        """
        if self.settings_model is None:
            return ()
        trains = self.is_own_model or issubclass(self.settings_model, TrainingSettings)
        return metrics_of(self.name, trains=trains)

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

    def expect_data(self, settings: Mapping[str, Any]) -> None:
        """Raise `DataError` if the data is neither on this machine nor to be downloaded now."""
        resolved = self.resolve(settings)
        if resolved:
            resolved.expect_data()


def find_workload(name: str) -> Workload:
    """Return a built-in workload, `package.module:function` or an own model, by its name.

    The name of an own model is what `own_model_name` returns. Raise `UnknownWorkload` for any other
    name.
    """
    built_in = {workload.name: workload for workload in BUILT_IN}
    if name in built_in:
        return built_in[name]
    if model := _OWN_MODEL.fullmatch(name):
        data = None if model["data"] == RANDOM_DATA else model["data"]
        return Workload(
            name,
            entry=model["model"],
            summary="a model of your own",
            settings_model=OwnModelSettings,
            model_entry=model["model"],
            data_entry=data,
            callbacks_entry=model["callbacks"],
        )
    if _OWN.fullmatch(name):
        return Workload(name, entry=name, summary="a workload of your own")
    near = difflib.get_close_matches(name, built_in, n=1)
    raise UnknownWorkload(
        f"workload: expected one of {', '.join(built_in)}, or package.module:function;"
        f" received {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def has_random_data(name: str) -> bool:
    """Return True for the name of an own model without a function that loads its data."""
    own_model = _OWN_MODEL.fullmatch(name)
    return own_model is not None and own_model["data"] == RANDOM_DATA


def is_own_model(name: str) -> bool:
    """Return True for the name of an own model."""
    return _OWN_MODEL.fullmatch(name) is not None


def own_model_name(model: str, data: str | None, callbacks: str | None = None) -> str:
    """Return the name of the workload of an own model: `forecast:build with forecast:load`.

    The entry of its callbacks follows if it has some.
    """
    name = f"{model} with {data or RANDOM_DATA}"
    return f"{name} with {callbacks}" if callbacks else name


def explain_invalid_settings(error: ValidationError) -> str:
    """Return one line for all faults of some settings: key, expected value, received value."""
    return "; ".join(
        f"{'.'.join(['settings', *map(str, fault['loc'])])}:"
        f" {fault['msg'].removeprefix('Value error, ')}; received {fault['input']!r:.200}"
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
        "only recurrent layers, forward and forward + backward, on random input",
        SyntheticSettings,
    ),
)
