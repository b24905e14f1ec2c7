"""Text that a trained character model writes, one character after the other.

Run inside a trainer process: imports Keras.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workloads.data.tokens import EncodedText, Tokens


def write_text(
    model: Any,
    encoded: EncodedText,
    prime: Tokens,
    *,
    characters: int,
    temperature: float,
    seed: int,
) -> str:
    """The text that follows `prime`.

    Args:
        model: stateful, of batch size 1 and one step, from a token id to logits.
        encoded: tells how tokens are written.
        prime: tokens to read first.
        characters: tokens to write.
        temperature: divides the logits; 1 is what the model has learnt, less is more careful.
        seed: of the draws.
    """
    next_logits, draw = _reader(model), np.random.default_rng(seed)
    logits = np.zeros(len(encoded.vocabulary))
    for token in prime:
        logits = next_logits(int(token))
    written = []
    for _ in range(characters):
        token = _drawn(logits / temperature, draw)
        written.append(token)
        logits = next_logits(token)
    return encoded.decode(written)


def copy_weights(source: Any, target: Any) -> None:
    """Give one model the trainable weights of another with the same layers; states stay apart."""
    for ours, theirs in zip(target.trainable_variables, source.trainable_variables, strict=True):
        ours.assign(np.array(theirs))  # a copy: JAX would share its buffers, and then donate them


def _reader(model: Any) -> Callable[[int], Any]:
    for layer in model.layers:
        if hasattr(layer, "reset_state"):
            layer.reset_state()

    def read(token: int) -> Any:
        logits = model.predict_on_batch(np.array([[token]], np.int32))
        return np.asarray(logits, np.float64).reshape(-1)

    return read


def _drawn(logits: Any, draw: np.random.Generator) -> int:
    """A token with the probabilities of these logits (the Gumbel-max trick)."""
    return int(np.argmax(logits + draw.gumbel(size=len(logits))))
