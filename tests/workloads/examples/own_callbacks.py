"""Callbacks of a user's own, next to a model, some of which cannot be used."""

import os
from pathlib import Path
from typing import Any

import keras

from tests.workloads.examples import own_models

Settings = dict[str, Any]
load = own_models.load_parts

_made_once = [keras.callbacks.EarlyStopping()]


def build(settings: Settings) -> Any:
    return own_models.build(settings)


def rate(epoch: int) -> float:
    return 5.0 * epoch  # nothing is learned in the first epoch, and much is lost in the second


class CountsItself(keras.callbacks.Callback):
    """A callback that adds to the logs, by an operation that JAX compiles."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        squares = keras.ops.sum(keras.ops.square(self.model.weights[0]))
        logs["weights"] = float(keras.ops.convert_to_numpy(squares))


def make(settings: Settings) -> list[keras.callbacks.Callback]:
    return [
        keras.callbacks.LearningRateScheduler(rate),
        CountsItself(),
        keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss"),
        keras.callbacks.CSVLogger(settings["log"]),
    ]


def make_boards(settings: Settings) -> list[keras.callbacks.Callback]:
    folder = Path(settings.get("log", os.devnull)).with_suffix("")
    return [keras.callbacks.TensorBoard(folder, update_freq=settings.get("update_freq", "epoch"))]


def make_two_epochs(settings: Settings) -> list[keras.callbacks.Callback]:
    def stop(epoch: int, logs: Any = None) -> None:
        callback.model.stop_training = epoch == 2

    callback = keras.callbacks.LambdaCallback(on_epoch_begin=stop)
    return [callback]


def make_failing(settings: Settings) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs["val_f1"])]


def make_at_batches(settings: Settings) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.TerminateOnNaN()]


def make_lambda_at_batches(settings: Settings) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)]


def make_checkpoints(settings: Settings) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.ModelCheckpoint("model.keras")]


def make_none(settings: Settings) -> keras.callbacks.Callback:
    return keras.callbacks.EarlyStopping()


def make_once(settings: Settings) -> list[keras.callbacks.EarlyStopping]:
    return _made_once


def make_misspelt(settings: Settings) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.EarlyStopping("val_los")]


def make_with_own_metric() -> list[keras.callbacks.Callback]:
    return [CountsItself(), keras.callbacks.EarlyStopping("weights")]
