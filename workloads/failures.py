"""Exceptions for the protocol's kinds of failure; all others become the kind `error`."""

from typing import ClassVar

from workloads.protocol import FailureKind

LESS_MEMORY = "reduce batch_size, units, layers or the length of the sequences"
"""What to do where memory does not suffice."""

SAME_DATA = (
    "use a fixed seed, such as numpy.random.default_rng(7), and do not shuffle, because rnnsweep"
    " orders the samples itself (in tf.data, shuffle needs reshuffle_each_iteration=False)"
)
"""What to do where data differ from call to call."""


class TrialError(Exception):
    """The failure of a trial; `kind` is the kind of its `Failure` event."""

    kind: ClassVar[FailureKind] = "error"


class NonFinite(TrialError, ArithmeticError):
    """A loss or metric that is NaN or infinite."""

    kind = "non_finite"


class NotPossible(TrialError):
    """An implementation that cannot run these settings on this device."""

    kind = "not_possible"


class OutOfMemory(TrialError):
    """A memory, of the GPU or the node, that does not suffice for the trial."""

    kind = "out_of_memory"


class DataError(TrialError):
    """A data set that is missing, unreadable, or not the expected one."""

    kind = "data"


class BadRequest(TrialError, ValueError):
    """A request that this process cannot run: an unknown name, or wrong settings."""

    kind = "bad_request"


class CompiledWhileTimed(TrialError):
    """A function that was traced or compiled inside a timed window, so that the times are void."""
