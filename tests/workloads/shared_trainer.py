"""A real, warm trainer process that tests share."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from tests.lacking import skip_here
from workloads import protocol
from workloads.backends.registry import backends
from workloads.eligibility import is_installed

HOSTILE = "tests.workloads.examples.hostile"
EventType = TypeVar("EventType")


class Trainer:
    def __init__(
        self,
        *arguments: str,
        stderr: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workloads", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(
        self, workload: str, implementation: str = "none/noop", **fields: Any
    ) -> list[protocol.Event]:
        self.send(
            protocol.encode_message(protocol.TrialRequest(workload, implementation, **fields))
        )
        return self.events_of_trial()

    def events_of_trial(self) -> list[protocol.Event]:
        assert self.process.stdout is not None
        events = list[protocol.Event]()
        while not (events and isinstance(events[-1], protocol.Result | protocol.Failure)):
            line = self.process.stdout.readline()
            assert line, f"the trainer ended with {self.process.wait()}"
            events.append(protocol.decode_event(line))
        return events


def single_event(events: Sequence[protocol.Event], kind: type[EventType]) -> EventType:
    (event,) = [event for event in events if isinstance(event, kind)]
    return event


def environment_of(events: Sequence[protocol.Event]) -> dict[str, Any]:
    """Return all facts about the environment; a trial reports some when its model is built."""
    facts = dict[str, Any]()
    for event in events:
        if isinstance(event, protocol.EnvironmentFacts):
            facts |= event.facts
    return facts


def result(events: Sequence[protocol.Event]) -> dict[str, float]:
    last = events[-1]
    assert isinstance(last, protocol.Result), last
    return dict(last.metrics)


def failure(events: Sequence[protocol.Event]) -> protocol.Failure:
    last = events[-1]
    assert isinstance(last, protocol.Failure), last
    return last


def run_by_hand(*lines: str) -> tuple[int, list[protocol.Event | str], str]:
    # The versions of the packages that the tests import are left out.
    done = subprocess.run(
        [sys.executable, "-m", "workloads"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ,
    )
    events: list[protocol.Event | str] = []
    for line in done.stdout.splitlines():
        try:
            event = protocol.decode_event(line)
        except protocol.ProtocolError:
            events.append(line)
            continue
        events += [] if isinstance(event, protocol.EnvironmentFacts) else [event]
    return done.returncode, events, done.stderr


def request(workload: str, **fields: Any) -> str:
    return protocol.encode_message(
        protocol.TrialRequest(f"{HOSTILE}:{workload}", "none/noop", **fields)
    )


def expect_package(backend: str) -> None:
    if not is_installed(backend):
        skip_here(f"{backend} is not installed here: {backends()[backend].install}")
