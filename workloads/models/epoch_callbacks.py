"""The Keras callbacks of a user, which work at the edges of epochs. Imports Keras."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras

from workloads.context import Context
from workloads.failures import BadRequest
from workloads.hidden_packages import visible_packages

_BATCH_HOOKS = tuple(
    f"on_{step}batch_{edge}"
    for step in ("", "train_", "test_", "predict_")
    for edge in ("begin", "end")
)


def expect_epoch_callbacks(made: Any, location: str) -> list[keras.callbacks.Callback]:
    """Return what a user's function made as a list; raise `BadRequest` if it cannot be used.

    A callback that works at each batch waits for the device there, in the timed steps.
    """
    is_list = isinstance(made, list | tuple)
    if not is_list or not all(isinstance(each, keras.callbacks.Callback) for each in made):
        raise BadRequest(
            f"{location} returns {made!r:.200}: return a list of Keras callbacks, such as"
            " [keras.callbacks.EarlyStopping()]"
        )
    for callback in made:
        if hooks := _batch_hooks_of(callback):
            raise BadRequest(
                f"{location}: {type(callback).__name__} works at each batch"
                f" ({', '.join(hooks)}), in the steps that are timed: remove it, or let it work"
                " between epochs"
            )
    return list(made)


def unknown_monitor(
    callbacks: Sequence[keras.callbacks.Callback], metrics: Sequence[str]
) -> tuple[str, str] | None:
    """Return the class of a callback with the metric that it monitors, but no epoch has.

    None if a callback of the user's own may add the metric.
    """
    if not all(type(callback).__module__.startswith("keras.") for callback in callbacks):
        return None
    for callback in callbacks:
        monitor = getattr(callback, "monitor", None)
        if monitor is not None and monitor not in metrics:
            return type(callback).__name__, str(monitor)
    return None


def _batch_hooks_of(callback: keras.callbacks.Callback) -> list[str]:
    """Return the hooks of a callback that do something at each batch."""
    usual: list[type] = [keras.callbacks.Callback]
    if isinstance(callback, keras.callbacks.TensorBoard) and _writes_at_epochs(callback):
        usual.append(keras.callbacks.TensorBoard)  # whose hooks then do nothing
    return [
        name
        for name in _BATCH_HOOKS
        # `LambdaCallback` has functions of the object, not of its class.
        if getattr(getattr(callback, name), "__func__", None)
        not in [getattr(base, name) for base in usual]
    ]


def _writes_at_epochs(callback: Any) -> bool:
    is_traced = getattr(callback, "_should_trace", False)  # by `profile_batch`
    return callback.update_freq == "epoch" and not (callback.write_steps_per_second or is_traced)


class EpochCallbacks:
    """The callbacks of one training, called as `fit` calls them, but never at a batch.

    Calls around an epoch are timed in a phase of their own, which no window of the training
    includes. Inside the context of `may_compile` they may trace and compile what they need.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        trial: Context,
        may_compile: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._callbacks, self._trial, self._may_compile = callbacks, trial, may_compile

    def begin_training(self, model: Any, params: Mapping[str, Any], logs: Any) -> None:
        """Let the callbacks know the model and the parameters of `fit`, and begin."""
        if not self._callbacks:
            return
        with self._trial.phase("callbacks"), visible_packages(), self._may_compile():
            for callback in self._callbacks:
                callback.set_params(dict(params))
                callback.set_model(model)
            for callback in self._callbacks:
                callback.on_train_begin(logs)

    def call(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all callbacks, outside of the windows of the training."""
        if not self._callbacks:
            return
        with self._trial.phase("callbacks"):
            self.call_in_window(hook, *arguments)

    def call_in_window(self, hook: str, *arguments: Any) -> None:
        """Call a hook of all callbacks as a part of the phase that is timed now."""
        if not self._callbacks:
            return
        with visible_packages(), self._may_compile():
            for callback in self._callbacks:
                getattr(callback, hook)(*arguments)
