"""A user's own model as a task: `build(settings)` returns the model, `load(settings)` the data."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.context import Context
from workloads.data.samples import DataSet, Samples
from workloads.failures import BadRequest, DataError
from workloads.modules.own_module import OwnModule, is_torch_module, with_functions_next_to
from workloads.protocol import TimedWork
from workloads.settings import TrainingPlan
from workloads.tasks.own_model.random_data import no_random_data_for_module, random_data
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.task import Task

UserFunction = Callable[..., Any]
"""`build` or `load` of a user: it takes the settings, or nothing."""

_VALIDATION_SHARE = 0.1
"""The share of the data, at its end, that is for validation where `load` returns none for it."""


@dataclass(frozen=True, slots=True)
class OwnFunctions:
    """The two functions of a user, and their places; without `load` the data are random."""

    model_entry: str
    build: UserFunction
    data_entry: str | None = None
    load: UserFunction | None = None

    def as_task(self) -> Task[OwnModelSettings, DataSet]:
        """Return the task that trains the model on the data."""

        def load(settings: OwnModelSettings, seed: int) -> DataSet:
            return self.load_data(settings.as_user_settings(), settings.batch_size)

        def plan(settings: OwnModelSettings) -> TrainingPlan:
            return replace(settings.plan(), learns=self.load is not None)

        def build(settings: OwnModelSettings, trial: Context, data: DataSet) -> Any:
            import keras  # noqa: PLC0415 - the framework of this process

            keras.utils.set_random_seed(trial.seed % 2**32)  # whatever `load` has drawn
            return self.build_model(settings.as_user_settings(), trial.timed_work)

        return Task(settings_model=OwnModelSettings, load=load, build=build, plan=plan)

    def build_model(
        self, settings: Mapping[str, Any], timed_work: TimedWork = "train"
    ) -> Any | OwnModule:
        """Return the Keras model or the PyTorch module that `build` returns.

        A Keras model that is to be trained must be compiled. Raise `BadRequest` for anything else.
        """
        import keras  # noqa: PLC0415 - the framework of this process

        model = call_with_settings(self.build, settings)
        if is_torch_module(model):
            return with_functions_next_to(self.build, model, place_of(self.build), settings)
        if not isinstance(model, keras.Model):
            raise BadRequest(
                f"{place_of(self.build)}: expected a keras.Model or a torch.nn.Module; received"
                f" {_described(model)}: return the model at the end of the function"
            )
        if not model.compiled and timed_work == "train":
            raise BadRequest(
                f"{place_of(self.build)}: expected a compiled model; received one without"
                " model.compile(optimizer=…, loss=…): call it before the function returns"
            )
        return model

    def load_data(self, settings: Mapping[str, Any], batch_size: int) -> DataSet:
        """Return what `load` returns as a data set; raise `DataError` for anything else.

        Without `load` the data are random, for the shapes of the model, which is built for that.
        """
        if self.load is None or self.data_entry is None:
            model = self.build_model(settings, "predict")  # its optimizer does not matter here
            if isinstance(model, OwnModule):
                raise no_random_data_for_module(model.place)
            return random_data(model, batch_size, place_of(self.build))
        loaded = call_with_settings(self.load, settings)
        train, validation = _parts(loaded, place_of(self.load))
        return DataSet(
            self.data_entry,
            digest=digest_of(train, validation),
            source=inspect.getsourcefile(self.load) or self.data_entry,
            train=train,
            validation=validation,
        )


def call_with_settings(function: UserFunction, settings: Mapping[str, Any]) -> Any:
    """Call a user's function with the settings, or with nothing if it takes nothing."""
    if not inspect.signature(function).parameters:
        return function()
    return function(settings)


def place_of(function: UserFunction) -> str:
    """Return where a function is defined: `forecast.py:5: build`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if code is None:  # an object that can be called
        return name
    file = Path(code.co_filename)
    is_here = file.is_relative_to(Path.cwd())
    return f"{file.relative_to(Path.cwd()) if is_here else file}:{code.co_firstlineno}: {name}"


def digest_of(*parts: Samples) -> str:
    """Return the SHA-256 of the arrays: their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for part in parts:
        for name, array in (("inputs", part.inputs), ("targets", part.targets)):
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _parts(loaded: Any, place: str) -> tuple[Samples, Samples]:
    """Return training and validation samples of what `load` returned."""
    if _is_pair(loaded) and _is_pair(loaded[0]) and _is_pair(loaded[1]):
        return _samples(loaded[0], place), _samples(loaded[1], place)
    if not _is_pair(loaded):
        raise DataError(
            f"{place}: expected (x, y), or ((x, y), (x_validation, y_validation)), of arrays;"
            f" received {_described(loaded)}"
        )
    samples = _samples(loaded, place)
    count = len(samples) - max(1, round(len(samples) * _VALIDATION_SHARE))
    if count < 1:
        raise DataError(f"{place}: expected at least 2 samples; received {len(samples)}")
    return samples.first(count), Samples(samples.inputs[count:], samples.targets[count:])


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _samples(pair: Any, place: str) -> Samples:
    inputs, targets = _array(pair[0], f"{place}: x"), _array(pair[1], f"{place}: y")
    if len(inputs) != len(targets) or not len(inputs):
        raise DataError(
            f"{place}: expected as many targets as inputs, and at least one; received shapes"
            f" {inputs.shape} and {targets.shape}"
        )
    return Samples(inputs, targets)


def _array(value: Any, place: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except Exception as error:  # an array of a framework, or a ragged list
        raise DataError(f"{place}: expected an array; {error}") from error
    if array.ndim == 0 or array.dtype.hasobject:
        raise DataError(
            f"{place}: expected an array whose first axis counts samples; received"
            f" {_described(value)}"
        )
    return array


def _described(value: Any) -> str:
    return "nothing (None)" if value is None else f"{type(value).__name__}: {value!r:.80}"
