"""The ways in which a trial fails that have a name of their own in the protocol.

A workload may raise any exception: what is not one of these becomes a `Failure` of kind `error`.
"""

from __future__ import annotations

from typing import ClassVar

from workloads.protocol import FailureKind


class TrialError(Exception):
    """A trial cannot go on; `kind` is what the `Failure` event says."""

    kind: ClassVar[FailureKind] = "error"


class NonFinite(TrialError, ArithmeticError):
    """A loss or a metric is NaN or infinite."""

    kind = "non_finite"


class NotPossible(TrialError):
    """The implementation cannot run these settings on this device."""

    kind = "not_possible"


class DataError(TrialError):
    """The data set is missing, unreadable, or not the one that was asked for."""

    kind = "data"


class BadRequest(TrialError, ValueError):
    """The request cannot be run by this process: an unknown name, or wrong settings."""

    kind = "bad_request"


class CompiledWhileTimed(TrialError):
    """A function was traced or compiled inside a timed window: the times mean nothing."""
