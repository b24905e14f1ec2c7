"""A user's own model as a task: `build(settings)` returns the model, `load(settings)` the data.

A third function may return the callbacks of a training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads.autologging import switch_off_autologging
from workloads.context import Context
from workloads.data.samples import DataSet
from workloads.failures import BadRequest
from workloads.hidden_packages import visible_packages
from workloads.modules.own_module import OwnModule, is_torch_module, with_functions_next_to
from workloads.protocol import TimedWork
from workloads.settings import TrainingPlan
from workloads.tasks.own_model.loaded import digest_of, read_loaded, seed_loading
from workloads.tasks.own_model.random_data import no_random_data_for_module, random_data
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.task import Task

UserFunction = Callable[..., Any]
"""`build`, `load` or `callbacks` of a user: it takes the settings, or nothing."""


@dataclass(frozen=True, slots=True)
class OwnFunctions:
    """The functions of a user, and the location of `load`; without it the data are random."""

    build: UserFunction
    data_entry: str | None = None
    load: UserFunction | None = None
    callbacks: UserFunction | None = None

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

        def callbacks(settings: OwnModelSettings) -> list[Any]:
            return self.make_callbacks(settings.as_user_settings())

        return Task(
            settings_model=OwnModelSettings,
            load=load,
            build=build,
            plan=plan,
            callbacks=callbacks if self.callbacks else None,
        )

    def build_model(
        self, settings: Mapping[str, Any], timed_work: TimedWork = "train"
    ) -> Any | OwnModule:
        """Return the Keras model or the PyTorch module that `build` returns.

        A Keras model that is to be trained must be compiled, and a module has no callbacks. Raise
        `BadRequest` for anything else.
        """
        import keras  # noqa: PLC0415 - the framework of this process

        model = call_with_settings(self.build, settings)
        switch_off_autologging()
        if is_torch_module(model):
            if self.callbacks is not None:
                raise BadRequest(
                    f"{location_of(self.build)} returns a torch.nn.Module, and callbacks work on"
                    " Keras models: remove callbacks from the spec, or use a training loop of your"
                    " own (docs/own_loop.md)"
                )
            return with_functions_next_to(self.build, model, location_of(self.build), settings)
        if not isinstance(model, keras.Model):
            raise BadRequest(
                f"{location_of(self.build)} returns {_described(model)}: return a keras.Model or a"
                " torch.nn.Module"
            )
        if not model.compiled and timed_work == "train":
            raise BadRequest(
                f"{location_of(self.build)}: the model is not compiled: call"
                " model.compile(optimizer=…, loss=…) before the function returns"
            )
        return model

    def make_callbacks(self, settings: Mapping[str, Any]) -> list[Any]:
        """Return the Keras callbacks of one training; none without a function that makes them.

        Raise `BadRequest` for anything but a list of callbacks that work at the edges of epochs.
        """
        from workloads.models.epoch_callbacks import expect_epoch_callbacks  # noqa: PLC0415 - Keras

        if self.callbacks is None:
            return []
        with visible_packages():
            made = call_with_settings(self.callbacks, settings)
        return expect_epoch_callbacks(made, location_of(self.callbacks))

    def load_data(self, settings: Mapping[str, Any], batch_size: int) -> DataSet:
        """Return what `load` returns as a data set; raise `DataError` for anything else.

        Without `load` the data are random, for the shapes of the model, which is built for that.
        """
        if self.load is None or self.data_entry is None:
            model = self.build_model(settings, "predict")  # its optimizer does not matter here
            if isinstance(model, OwnModule):
                raise no_random_data_for_module(model.location)
            return random_data(model, batch_size, location_of(self.build))
        # An import inside `load` may need a framework that is not this process's own.
        with visible_packages():
            seed_loading()
            loaded = call_with_settings(self.load, settings)
            train, validation = read_loaded(loaded, location_of(self.load))
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


def location_of(function: UserFunction) -> str:
    """Return where a function is defined: `forecast.py:5: build`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if code is None:  # an object that can be called
        return name
    file = Path(code.co_filename)
    is_here = file.is_relative_to(Path.cwd())
    return f"{file.relative_to(Path.cwd()) if is_here else file}:{code.co_firstlineno}: {name}"


def _described(value: Any) -> str:
    return "nothing (None)" if value is None else f"{type(value).__name__}: {value!r:.80}"
