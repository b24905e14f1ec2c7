"""Workloads by name: their settings, what decides their kernels, and where their code is.

Imports no framework: a workload's code is named here and imported in a trainer process only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from workloads.data.sources import image_digest, review_digest, text_digest
from workloads.eligibility import LayerTraits
from workloads.settings.char_rnn import CharRnnSettings
from workloads.settings.image_rows import ImageRowsSettings
from workloads.settings.next_token import NextTokenSettings
from workloads.settings.recurrent import StackSettings
from workloads.settings.sentiment import SentimentSettings
from workloads.settings.synthetic import SyntheticSettings

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class UnknownWorkload(ValueError):
    """A name that is neither a built-in workload nor of the shape `package.module:function`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that can be trained.

    `settings_model` is None for a user's own workload: it takes any settings, any names of
    implementations, reports any metrics, and its data has no digest that could be told
    beforehand.

    `data_settings` are the settings that decide the data, and so its digest: they are the same
    in all trials of a sweep. `work_settings` say how much of the same work a trial does: an arm
    on slow hardware may do less of it, and its times per step and sample compare all the same.
    `metrics` are those that a trial may end with: what the workload
    itself returns, the seconds of its phases, and its trainer's memory.
    """

    name: str
    entry: str
    summary: str
    settings_model: type[StackSettings] | None = None
    data_settings: tuple[str, ...] = ()
    work_settings: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    _digest: Callable[[Mapping[str, Any]], str] | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether settings and implementations are known, and can be checked beforehand."""
        return self.settings_model is not None

    def resolve(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings, validated, with defaults filled in; a user's own stay as they are.

        Raises:
            pydantic.ValidationError: a name is unknown, or a value is out of its bounds.
        """
        if self.settings_model is None:
            return dict(settings)
        return self.settings_model.model_validate(dict(settings)).model_dump()

    def accepts(self, settings: Mapping[str, Any]) -> bool:
        """Whether `resolve` would take them."""
        try:
            self.resolve(settings)
        except ValidationError:
            return False
        return True

    def traits(self, settings: Mapping[str, Any]) -> LayerTraits:
        """What decides which kernel may run; the default traits for a user's own workload."""
        if self.settings_model is None:
            return LayerTraits()
        return self.settings_model.model_validate(dict(settings)).traits()

    def data_digest(self, settings: Mapping[str, Any]) -> str | None:
        """SHA-256 of the data's source, without loading it; None where nobody can tell.

        Raises:
            DataError: the source is missing on this machine.
        """
        return self._digest(self.resolve(settings)) if self._digest else None


def built_in_workloads() -> tuple[Workload, ...]:
    """The built-in workloads."""
    return _BUILT_IN


def find_workload(name: str) -> Workload:
    """The workload of that name, or the user's own where it reads `package.module:function`.

    Raises:
        UnknownWorkload: it is neither; the nearest built-in name is suggested.
    """
    for workload in _BUILT_IN:
        if workload.name == name:
            return workload
    if _OWN.fullmatch(name):
        return Workload(name, entry=name, summary="a workload of your own")
    known = [workload.name for workload in _BUILT_IN]
    near = difflib.get_close_matches(name, known, n=1)
    raise UnknownWorkload(
        f"workload: expected one of {', '.join(known)}, or package.module:function;"
        f" received {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def explain_invalid_settings(error: ValidationError, model: type[BaseModel] | None) -> str:
    """One line for all faults of some settings: place, what was expected, what was received."""
    return "; ".join(_fault(fault, model) for fault in error.errors(include_url=False))


def _fault(fault: Mapping[str, Any], model: type[BaseModel] | None) -> str:
    place = ".".join(["settings", *map(str, fault["loc"])])
    if fault["type"] == "extra_forbidden" and model is not None:
        near = difflib.get_close_matches(str(fault["loc"][-1]), model.model_fields, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"{place}: no such setting{hint}; known: {', '.join(model.model_fields)}"
    if not fault["loc"]:  # a rule across several settings, whose message says it all
        return f"{place}: {fault['msg'].removeprefix('Value error, ')}"
    return f"{place}: {fault['msg']}; received {fault['input']!r}"


_TRAINING_METRICS = (
    *("loss", "accuracy", "val_loss", "val_accuracy"),
    *("step_ms", "sample_us", "samples_per_s", "cpu_over_wall", "time_to_accuracy_s"),
    *("step_ms_median", "step_ms_p95", "predict_sample_ms"),
    *("model_flops_per_step", "model_flops_per_s", "peak_flops_per_s"),
    *("model_flops_utilization_pct", "peak_rss_mib", "peak_gpu_mib"),
    *("train_s", "validate_s", "evaluate_s", "predict_s", "load_s", "compile_s"),
    *("latency_s", "steps_s", "canary_ms"),
)
"""Of every workload that `workloads.measuring.full_training` trains. `import_s` is left out: a
process reports
it once, so that a block's other trials would lack it."""

_PASSES_METRICS = (
    *("step_ms", "forward_ms", "sample_us", "samples_per_s", "cpu_over_wall"),
    *("step_ms_median", "step_ms_p95", "model_flops_per_step", "model_flops_per_s"),
    *("peak_flops_per_s", "model_flops_utilization_pct"),
    *("peak_rss_mib", "peak_gpu_mib", "load_s", "compile_s", "forward_s", "train_s", "steps_s"),
    "canary_ms",
)
"""Of the workload that times passes without training."""

TIMING_METRICS = (
    *("step_ms", "sample_us", "samples_per_s", "slices", "slice_steps", "timed_s"),
    *("cpu_over_wall", "model_flops_per_step", "model_flops_per_s"),
    *("ratio_interval", "canary_ms", "load_s", "compile_s", "peak_rss_mib", "peak_gpu_mib"),
)
"""Of every workload, of a trial that is timed in slices: it learns nothing to speak of."""


def _digest_by(tell: Callable[[Any, str | None], str]) -> Callable[[Mapping[str, Any]], str]:
    """The digest of the data that the settings `dataset` and `data_path` name."""
    return lambda settings: tell(settings["dataset"], settings["data_path"])


_DATA = ("dataset", "data_path")
_WORK = ("epochs", "timed_steps", "samples", "validation_samples")
_BUILT_IN: tuple[Workload, ...] = (
    Workload(
        name="image_rows",
        entry="workloads.tasks.image_rows:run",
        summary="classifies images whose rows are read as a sequence (digits, MNIST)",
        settings_model=ImageRowsSettings,
        data_settings=_DATA,
        work_settings=_WORK,
        metrics=_TRAINING_METRICS,
        _digest=_digest_by(image_digest),
    ),
    Workload(
        name="next_token",
        entry="workloads.tasks.next_token:run",
        summary="tells the token that follows a window of text",
        settings_model=NextTokenSettings,
        data_settings=_DATA,
        work_settings=_WORK,
        metrics=_TRAINING_METRICS,
        _digest=_digest_by(text_digest),
    ),
    Workload(
        name="char_rnn",
        entry="workloads.tasks.char_rnn:run",
        summary="a character-level language model, which writes a text once it is trained",
        settings_model=CharRnnSettings,
        data_settings=_DATA,
        work_settings=(*_WORK, "sample_characters"),
        metrics=(*_TRAINING_METRICS, "bits_per_char", "val_bits_per_char", "sample_s"),
        _digest=_digest_by(text_digest),
    ),
    Workload(
        name="sentiment",
        entry="workloads.tasks.sentiment:run",
        summary="tells good reviews from bad ones: padded, masked, in both directions",
        settings_model=SentimentSettings,
        data_settings=_DATA,
        work_settings=_WORK,
        metrics=_TRAINING_METRICS,
        _digest=_digest_by(review_digest),
    ),
    Workload(
        name="synthetic",
        entry="workloads.tasks.synthetic:run",
        summary="the recurrent layers alone, forward and both ways, on random input",
        settings_model=SyntheticSettings,
        work_settings=("timed_steps",),
        metrics=_PASSES_METRICS,
    ),
)
