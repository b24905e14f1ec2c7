"""`image_rows`: the rows of an image, read as a sequence by recurrent layers, tell its class.

Every arm starts from the same weights and sees the same batches in the same order. Dropout masks
come from the same seeds, yet no two backends, nor XLA and TensorFlow's own kernels, draw the same
masks from a seed: with dropout, an arm's curve differs from the others' as another seed's would.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from workloads.context import Context
from workloads.data.images import Images, load_images
from workloads.measuring.measurement import measure
from workloads.models.flops import dense_flops, recurrent_flops
from workloads.settings.image_rows import ImageRowsSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """One trial of `image_rows`."""
    settings = ImageRowsSettings(**trial.settings)
    return measure(
        trial,
        settings,
        load=partial(load, settings),
        build=partial(build, settings, trial),
        forward_flops=partial(forward_flops, settings),
    )


def load(settings: ImageRowsSettings) -> Images:
    """The images of these settings."""
    return load_images(
        settings.dataset,
        settings.data_path,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )


def build(settings: ImageRowsSettings, trial: Context, data: Images) -> WitnessedModel:
    """The compiled model of some images, with the initial weights of the trial's seed.

    The last layer computes in float32 whatever the precision, as Keras' guide to mixed precision
    has it.
    """
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model, seed_of  # noqa: PLC0415
    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    used = 3 * settings.layers  # seeds of the recurrent layers
    layers = [
        keras.Input(data.train.inputs.shape[1:]),
        *recurrent_stack(settings, trial.implementation, return_sequences=False, seed=trial.seed),
        keras.layers.Dropout(
            settings.dropout / 2 if settings.layers > 1 else settings.dropout,
            seed=seed_of(trial, used),
            name="dropout_last",
        ),
        keras.layers.Dense(settings.dense_units, activation="relu", name="dense"),
        keras.layers.Dropout(settings.dropout, seed=seed_of(trial, used + 1), name="dropout"),
        keras.layers.Dense(data.classes, activation="softmax", dtype="float32", name="classes"),
    ]
    optimizer = keras.optimizers.Adam(_learning_rate(settings))
    return compile_model(layers, trial, name="image_rows", optimizer=optimizer)


def forward_flops(settings: ImageRowsSettings, data: Images) -> int:
    """Of one image's way through the model."""
    rows, columns = data.train.inputs.shape[1:]
    width = settings.units * (2 if settings.bidirectional else 1)
    return (
        recurrent_flops(settings, inputs=columns, steps=rows)
        + dense_flops(width, settings.dense_units)
        + dense_flops(settings.dense_units, data.classes)
    )


def _learning_rate(settings: ImageRowsSettings) -> Any:
    """What Keras' former `Adam(decay=…)` did, which Keras 3 no longer has: lr / (1 + decay · i)."""
    import keras  # noqa: PLC0415 - imports the framework

    if settings.decay == 0:
        return settings.learning_rate
    return keras.optimizers.schedules.InverseTimeDecay(
        settings.learning_rate, decay_steps=1, decay_rate=settings.decay
    )
