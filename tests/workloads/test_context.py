"""Messages of the context about artifacts that it refuses."""

from __future__ import annotations

import pytest

from workloads.context import Context
from workloads.implementations import parse_implementation
from workloads.protocol import Artifact, Event


def context(events: list[Event]) -> Context:
    return Context({}, parse_implementation("tensorflow/portable"), "cpu", 0, events.append)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b.txt", "/a", "../a", ".hidden", "a b", "ä.txt", "a\n", "x" * 101]
)
def test_an_artifact_needs_a_plain_file_name(name: str) -> None:
    events: list[Event] = []
    with pytest.raises(ValueError, match=r"artifact: expected a plain file name .* received"):
        context(events).artifact(name, "text")
    assert events == []


def test_artifacts_are_limited_in_number_and_size() -> None:
    events: list[Event] = []
    trial = context(events)
    trial.artifact("large.txt", "ä" * 128 * 1024)  # 2 bytes each
    trial.artifact("large.txt", "a" * 256 * 1024)  # in the place of the first
    with pytest.raises(ValueError, match=r"at most 256 KiB of texts .* 257 KiB with 'more.txt'"):
        trial.artifact("more.txt", "a" * 1024)
    trial.artifact("large.txt", "small")
    for index in range(15):
        trial.artifact(f"{index}.txt", "")
    with pytest.raises(ValueError, match=r"at most 16 texts of a trial; '15.txt' is one too many"):
        trial.artifact("15.txt", "")
    assert events[:2] == [
        Artifact("large.txt", "ä" * 128 * 1024),
        Artifact("large.txt", "a" * 256 * 1024),
    ]
    assert len(events) == 18
