"""The errors of cuDNN that Keras on PyTorch keeps to itself.

Keras' layers catch any error of cuDNN and run a loop instead, with the same results. A profile of
one step does not show it where only another step failed: for want of memory, or with longer
sequences.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workloads.backends.kernel_evidence import Proof

_MODULE = "keras.src.backend.torch.rnn"
_CALLS = ("_cudnn_lstm", "_cudnn_gru")
"""Keras' functions that call cuDNN. Of a bidirectional layer that is refused in one call, each
direction is one of these."""


class CudnnErrors:
    """The errors of cuDNN since the last `forget`, which Keras' layers did not show."""

    def __init__(self) -> None:
        """Let Keras' calls of cuDNN note their errors from now on."""
        self.count, self._first = 0, ""
        rnn = importlib.import_module(_MODULE)  # its package has a function of this name
        for name in _CALLS:
            setattr(rnn, name, self._noting_errors(getattr(rnn, name)))

    def forget(self) -> None:
        """Forget all errors: a trial begins."""
        self.count, self._first = 0, ""

    def judge(self, proof: Proof) -> Proof:
        """Return the proof of a trial in which these errors came: not all of it ran cuDNN."""
        if not self.count:
            return proof
        times = "once" if self.count == 1 else f"{self.count} times"
        told = f"cuDNN failed {times}, and Keras ran its loop instead: {self._first}"
        ran = "mixed" if proof.ran.startswith("cudnn") else proof.ran
        return replace(proof, ran=ran, evidence=f"{proof.evidence}; {told}")

    def _noting_errors(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def note(*arguments: Any, **named: Any) -> Any:
            try:
                return call(*arguments, **named)
            except Exception as error:
                self.count += 1
                lines = str(error).strip().splitlines() or [type(error).__name__]
                self._first = self._first or lines[0][:200]
                raise

        return note
