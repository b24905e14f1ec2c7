"""Text that a trained character model writes, one character after the other.

Runs inside a trainer process: imports Keras.
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
    """Write a text that continues `prime`.

    Args:
        model: stateful, with batch size 1 and one step, from a token id to logits.
        encoded: the encoding of the tokens.
        prime: tokens to read first.
        characters: number of tokens to write.
        temperature: divides the logits; 1 draws from the model's distribution, less is more
            conservative.
        seed: seed of the draws.
    """
    next_logits, draw = _logits_function(model), np.random.default_rng(seed)
    logits = np.zeros(len(encoded.vocabulary))
    for token in prime:
        logits = next_logits(int(token))
    tokens = []
    for _ in range(characters):
        token = _draw_token(logits / temperature, draw)
        tokens.append(token)
        logits = next_logits(token)
    return encoded.decode(tokens)


def copy_weights(source: Any, target: Any) -> None:
    """Copy the trainable weights of a model to another with the same layers, without states."""
    for copy, original in zip(target.trainable_variables, source.trainable_variables, strict=True):
        copy.assign(np.array(original))  # a copy: JAX would share the buffer, and then donate it


def _logits_function(model: Any) -> Callable[[int], Any]:
    for layer in model.layers:
        if hasattr(layer, "reset_state"):
            layer.reset_state()

    def read(token: int) -> Any:
        logits = model.predict_on_batch(np.array([[token]], np.int32))
        return np.asarray(logits, np.float64).reshape(-1)

    return read


def _draw_token(logits: Any, draw: np.random.Generator) -> int:
    """Draw a token with the probabilities of these logits (the Gumbel-max trick)."""
    return int(np.argmax(logits + draw.gumbel(size=len(logits))))
