"""Sentences of Python's documentation in two classes: real text on every machine.

The class of a sentence is the half of the topics, in alphabetical order, that it comes from. It
can be learnt, since topics have words of their own: naive Bayes classifies four of five unseen
sentences correctly.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from workloads.data.prose import python_docs
from workloads.data.tokens import split_words

_END = re.compile(r"(?<=[.:!?])\s+(?=[A-Z*\"(])")
_MIN_WORDS = 6
"""Minimum number of words in a sentence: shorter ones are headings, or pieces of code."""


def labelled_sentences() -> tuple[list[list[str]], NDArray[np.int32]]:
    """Return different sentences as words, and their labels: 0 or 1, the half of their topic.

    Both halves have about the same number of sentences.
    """
    topics = _sentences()
    total = sum(map(len, topics))
    sentences: list[list[str]] = []
    labels: list[int] = []
    for topic in topics:
        labels += [int(len(sentences) >= total / 2)] * len(topic)
        sentences += topic
    return sentences, np.array(labels, np.int32)


def _sentences() -> list[list[list[str]]]:
    """Return the sentences by topic in alphabetical order; a sentence appears only once."""
    known_sentences: set[tuple[str, ...]] = set()
    topics = []
    for paragraphs in python_docs().values():
        new_sentences = []
        for paragraph in paragraphs:
            for sentence in _END.split(" ".join(paragraph.split())):
                words = tuple(split_words(sentence))
                if len(words) >= _MIN_WORDS and words not in known_sentences:
                    known_sentences.add(words)
                    new_sentences.append(list(words))
        topics.append(new_sentences)
    return topics
