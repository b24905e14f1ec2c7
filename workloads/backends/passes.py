"""A model's passes, forward and both ways, without optimizer, metric and data pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workloads.protocol import TimedWork


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of one model over one batch; they may return before the device has finished."""

    model: Any
    forward: Callable[[Any], Any]
    """Returns the outputs of a batch, in inference mode."""

    forward_backward: Callable[[Any], Any]
    """Returns the gradients of the mean output by each trainable variable, then by the batch."""

    place: Callable[[Any], Any]
    """Moves a batch (a NumPy array) to where the device reads it without a copy."""

    def timed(self, timed_work: TimedWork) -> Callable[[Any], Any]:
        """Return the pass that slices time: both ways for training, else forward alone."""
        return self.forward_backward if timed_work == "train" else self.forward
