"""Prints after how many losses a trial has failed, by a policy that `test_retry` changes."""

import itertools
import json
from collections.abc import Iterable

from orchestrator.scheduling.recovery import RetryPolicy


def losses_until_failure(with_node: Iterable[bool]) -> int:
    policy = RetryPolicy(attempts=3, preemptions=4)
    return next(
        number
        for number, lost_with_node in enumerate(with_node, 1)
        if policy.count_loss(["a trial"], with_node=lost_with_node) is not None
    )


def main() -> None:
    observed = {
        "with its node": losses_until_failure(itertools.repeat(True)),
        "alone": losses_until_failure(itertools.repeat(False)),
        "in turn": losses_until_failure(itertools.cycle([True, False])),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
