"""`image_rows`: recurrent layers read the rows of an image as a sequence, and predict its class.

Every arm starts from the same weights and sees the same batches in the same order. Dropout masks
come from the same seeds, but no two backends, nor XLA and TensorFlow's own kernels, draw the same
masks from a seed. With dropout, the learning curves of arms differ as those of two seeds do.
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
    """Run a trial of `image_rows`."""
    settings = ImageRowsSettings(**trial.settings)
    return measure(
        trial,
        settings,
        load=partial(load, settings),
        build=partial(build, settings, trial),
        forward_flops=partial(forward_flops, settings),
    )


def load(settings: ImageRowsSettings) -> Images:
    """Load the images of these settings."""
    return load_images(
        settings.dataset,
        settings.data_path,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )


def build(settings: ImageRowsSettings, trial: Context, data: Images) -> WitnessedModel:
    """Build the compiled model for images, with the initial weights of the trial's seed.

    The last layer computes in float32 at any precision, as Keras' guide to mixed precision
    recommends.
    """
    import keras  # noqa: PLC0415 - imports the framework

    from workloads.models.compile import compile_model, seed_of  # noqa: PLC0415
    from workloads.models.layers import recurrent_stack  # noqa: PLC0415

    used_seeds = 3 * settings.layers  # those of the recurrent layers
    layers = [
        keras.Input(data.train.inputs.shape[1:]),
        *recurrent_stack(settings, trial.implementation, return_sequences=False, seed=trial.seed),
        keras.layers.Dropout(
            settings.dropout / 2 if settings.layers > 1 else settings.dropout,
            seed=seed_of(trial, used_seeds),
            name="dropout_last",
        ),
        keras.layers.Dense(settings.dense_units, activation="relu", name="dense"),
        keras.layers.Dropout(settings.dropout, seed=seed_of(trial, used_seeds + 1), name="dropout"),
        keras.layers.Dense(data.classes, activation="softmax", dtype="float32", name="classes"),
    ]
    optimizer = keras.optimizers.Adam(_learning_rate(settings))
    return compile_model(layers, trial, name="image_rows", optimizer=optimizer)


def forward_flops(settings: ImageRowsSettings, data: Images) -> int:
    """Return the FLOPs of one image's forward pass."""
    rows, columns = data.train.inputs.shape[1:]
    width = settings.units * (2 if settings.bidirectional else 1)
    return (
        recurrent_flops(settings, inputs=columns, steps=rows)
        + dense_flops(width, settings.dense_units)
        + dense_flops(settings.dense_units, data.classes)
    )


def _learning_rate(settings: ImageRowsSettings) -> Any:
    """Return lr / (1 + decay · i) as a schedule: Keras 3 no longer has `Adam(decay=…)`."""
    import keras  # noqa: PLC0415 - imports the framework

    if settings.decay == 0:
        return settings.learning_rate
    return keras.optimizers.schedules.InverseTimeDecay(
        settings.learning_rate, decay_steps=1, decay_rate=settings.decay
    )
