"""The fingerprint of a model at its initial weights: what all arms of a block must agree on.

All arms of a block start from equal weights and see the samples in the same order. So their outputs
for the first samples, without dropout, and the gradients of their loss differ by rounding alone,
unless an implementation computes something else. Imports Keras.
"""

from workloads.backends.framework import Framework
from workloads.context import Context
from workloads.data.samples import Samples
from workloads.fingerprints import make_fingerprint
from workloads.models.gradients import (
    ModelGradients,
    gradients_of_loss,
    gradients_of_mean_output,
)
from workloads.models.rewriting import Rewritten
from workloads.models.training_run import TrainingRun


def report_fingerprint(run: TrainingRun, trial: Context) -> None:
    """Report the fingerprint of a run before its first step; leave its state as it was."""
    _report(gradients_of_loss(run), trial)


def report_fingerprint_of_passes(
    framework: Framework, rewritten: Rewritten, trial: Context, samples: Samples
) -> None:
    """Report the fingerprint of a model that is not trained."""
    _report(gradients_of_mean_output(framework, rewritten, trial, samples), trial)


def _report(computed: ModelGradients | None, trial: Context) -> None:
    if computed is not None:
        trial.fingerprint(make_fingerprint(computed.outputs, computed.gradients))
