"""A synthetic corpus of any length, for sizes that no available text has.

Word r is r times as rare as word 1 (Zipf's law), and previous words predict the next one. Every
word has an arc of a circle, as long as its probability; the order of the arcs is drawn once. A
point moves around the circle by the same angle in every step, and jumps to a random place in a
quarter of the steps. The words are the arcs that it visits. All places of the point are equally
likely, so the law holds exactly. One previous word predicts the next one roughly; several words
locate the point, and so predict the next word, more precisely: memory helps. The loss of a model
that learns falls below the entropy of the word frequencies, but never to zero, because of the
jumps.
"""

from __future__ import annotations

import numpy as np

from workloads.data.sources import ZIPF
from workloads.data.tokens import UNKNOWN, EncodedText


def zipf_corpus(length: int, vocabulary: int) -> EncodedText:
    """Return the first `length` words of the endless corpus for a vocabulary, always the same.

    Word r is token r, with the text `w<r>`. Token 0, the unknown one, does not occur, but counts
    in `vocabulary`.
    """
    steps = np.arange(length)
    draws = np.random.default_rng(int(ZIPF["seed"])).random((length, 2))
    restarts = draws[:, 0] < ZIPF["restart"]
    restarts[:1] = True
    last = np.maximum.accumulate(np.where(restarts, steps, 0))
    places = (draws[last, 1] + ZIPF["turn"] * (steps - last)) % 1.0
    draw = np.random.default_rng([int(ZIPF["seed"]), vocabulary - 1])
    owners = draw.permutation(np.arange(1, vocabulary, dtype=np.int32))  # of the circle's arcs
    shares = owners ** -ZIPF["exponent"]
    ends = np.cumsum(shares / shares.sum())
    tokens = owners[np.searchsorted(ends[:-1], places, side="right")]
    texts = (UNKNOWN, *(f"w{word}" for word in range(1, vocabulary)))
    return EncodedText(tokens, texts, "word")
