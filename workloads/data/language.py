"""A corpus cut into samples: what the workloads on text train on."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.data.corpora import Corpus
from workloads.data.samples import Samples
from workloads.data.tokens import EncodedText


@dataclass(frozen=True, slots=True)
class LanguageData:
    """Samples of a corpus, and how its tokens are written."""

    name: str
    digest: str
    source: str
    train: Samples
    validation: Samples
    encoded: EncodedText

    @property
    def vocabulary(self) -> int:
        """Tokens told apart: a text may have fewer than were asked for."""
        return len(self.encoded.vocabulary)


def make_language_data(corpus: Corpus, parts: tuple[Samples, Samples]) -> LanguageData:
    """The training and validation samples of a corpus."""
    return LanguageData(corpus.name, corpus.digest, corpus.source, *parts, corpus.encoded)
