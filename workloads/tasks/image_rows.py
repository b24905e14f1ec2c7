"""`image_rows`: recurrent layers read the rows of an image as a sequence, and predict its class.

Every arm starts from the same weights and sees the same batches in the same order. Dropout masks
come from the same seeds, but no two backends, nor XLA and TensorFlow's own kernels, draw the same
masks from a seed. With dropout, the learning curves of arms differ as those of two seeds do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from workloads.context import Context
from workloads.data.images import load_images
from workloads.data.samples import DataSet
from workloads.measuring.measurement import measure
from workloads.settings.tasks import ImageRowsSettings

if TYPE_CHECKING:
    from workloads.models.model import WitnessedModel


def run(trial: Context) -> dict[str, float]:
    """Run a trial of `image_rows`."""
    settings = ImageRowsSettings(**trial.settings)
    return measure(
        trial, settings, load=partial(load, settings), build=partial(build, settings, trial)
    )


def load(settings: ImageRowsSettings) -> DataSet:
    """Load the images of these settings."""
    return load_images(
        settings.dataset,
        settings.data_path,
        samples=settings.samples,
        validation_samples=settings.validation_samples,
    )


def build(settings: ImageRowsSettings, trial: Context, data: DataSet) -> WitnessedModel:
    """Build the compiled model for images, with the initial weights of the trial's seed."""
    from workloads.models.built_in import image_model  # noqa: PLC0415 - imports the framework

    return image_model(settings, trial, data)
