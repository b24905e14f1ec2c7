"""Environments are shared in memory, without keeping all that were ever seen."""

import sys

from orchestrator.core.trial import ENVIRONMENTS_SHARED, share_environment


def test_equal_environments_are_one_object() -> None:
    first = share_environment({"python": "3.11", "cpus": 2})
    assert share_environment({"python": "3.11", "cpus": 2}) is first
    assert first == {"python": "3.11", "cpus": 2}


def test_facts_of_other_types_are_not_confused() -> None:
    facts: list[int | float | str | None] = [1, True, 1.0, "1", None]
    shared = [share_environment({"fact": fact})["fact"] for fact in facts]
    assert list(map(type, shared)) == list(map(type, facts))


def test_environments_that_are_no_longer_used_are_forgotten() -> None:
    fact = "an environment that nothing else refers to"
    before = sys.getrefcount(fact)
    share_environment({"fact": fact})
    for number in range(2 * ENVIRONMENTS_SHARED):
        share_environment({"fact": number})
    assert sys.getrefcount(fact) == before
