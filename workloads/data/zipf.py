"""A synthetic corpus of any length, for sizes that no text at hand has.

Word r is r times as rare as word 1 (Zipf's law), and the past tells about the future. Each word
owns an arc of a circle, as long as its probability; which arcs are neighbours is drawn once. A
point moves around the circle by the same turn at every step, and is put to a new random place in
a quarter of them; the words are the arcs that it visits. The point is equally likely to be
anywhere, so that the law holds exactly. One word before tells the next one roughly, and several
tell the point's place, and so the next word, more closely: memory pays. A model that learns
falls below the entropy of the words' frequencies; none can reach zero, because of the restarts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workloads.data.sources import ZIPF
from workloads.data.tokens import UNKNOWN, EncodedText, Tokens


def zipf_corpus(length: int, vocabulary: int) -> EncodedText:
    """The first `length` words of the endless corpus of that vocabulary: always the same ones.

    Word r is token r and is written `w<r>`. Token 0, the unknown one, does not occur; it counts
    in `vocabulary`, which is at least 2.
    """
    if vocabulary < 2:
        raise ValueError(f"vocabulary: expected at least 2 tokens; received {vocabulary}")
    steps = np.arange(length)
    draws = np.random.default_rng(int(ZIPF["seed"])).random((length, 2))
    restarts = draws[:, 0] < ZIPF["restart"]
    restarts[:1] = True
    last = np.maximum.accumulate(np.where(restarts, steps, 0))
    places = (draws[last, 1] + ZIPF["turn"] * (steps - last)) % 1.0
    owners, ends = _circle(vocabulary - 1)
    tokens = owners[np.searchsorted(ends[:-1], places, side="right")]
    written = (UNKNOWN, *(f"w{word}" for word in range(1, vocabulary)))
    return EncodedText(tokens, written, "word")


def _circle(words: int) -> tuple[Tokens, NDArray[np.float64]]:
    """The words in the order of their arcs, and where each arc ends on a circle of length 1."""
    draw = np.random.default_rng([int(ZIPF["seed"]), words])
    owners = draw.permutation(np.arange(1, words + 1, dtype=np.int32))
    shares = owners ** -ZIPF["exponent"]
    return owners, np.cumsum(shares / shares.sum())
