"""Outcomes of the checks, and their file: one JSON object, written after each outcome."""

import dataclasses
import datetime
import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from infra.gpu.conditions import conditions_key

FORMAT, VERSION = "rnnsweep-gpu-checks", 3

Status: TypeAlias = Literal["passed", "missed", "failed", "skipped"]
"""`missed`: it works, and a figure is not as `docs/gpu.md` expects."""


class OtherHardware(Exception):
    """A file of results that belongs to another GPU or to other sizes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case of a check, or what is expected of one of its figures.

    `key` names the conditions under which it was measured. `judges` is the figure that an
    expectation is about, and empty for a case.
    """

    name: str
    case: str
    status: Status
    backend: str = ""
    implementation: str = ""
    reason: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    judges: str = ""

    @property
    def line(self) -> str:
        subject = " ".join(filter(None, [self.implementation or self.backend, self.case]))
        figures = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value:.70}"
            for name, value in self.measured.items()
            if isinstance(value, float | str)
        )
        return f"{self.status:<8}{self.name:<13}{subject}: {self.reason or figures}"


def judged(
    name: str,
    case: str,
    implementation: str,
    reason: str | None,
    measured: Mapping[str, Any],
    expected: Mapping[str, Any] | None = None,
) -> Outcome:
    status: Status = "failed" if reason else "passed"
    backend = implementation.partition("/")[0]
    return Outcome(
        name, case, status, backend, implementation, reason or "", measured, expected or {}
    )


class Record:
    """The outcomes on some hardware. Those of other conditions are kept, and do not count."""

    def __init__(self, path: Path | None, hardware: Mapping[str, Any]) -> None:
        """Continue the file, if it exists. Raise `OtherHardware` if it is of another GPU."""
        self.hardware = dict(hardware)
        self.conditions: dict[str, dict[str, str]] = {}  # by their keys
        self.current: dict[str, str] = {}  # the key of each backend's latest conditions
        self._outcomes: list[Outcome] = []  # in the order of their arrival
        self._done: list[str] = []  # checks, backends and keys that need no repetition
        self._path, self._lock = path, threading.Lock()
        if path is not None and path.exists():
            content = json.loads(path.read_text())
            expected = (FORMAT, VERSION, self.hardware)
            received = tuple(content.get(name) for name in ("format", "version", "hardware"))
            if expected != received:
                raise OtherHardware(
                    f"{path} has results of {received}, and this run is {expected}: choose another"
                    " file"
                )
            self.conditions, self.current = content["conditions"], content["current"]
            self._done = content["done"]
            self._outcomes = [Outcome(**fields) for fields in content["checks"]]

    def use_conditions(self, backend: str, conditions: Mapping[str, str]) -> dict[str, str]:
        """Count only the outcomes of a backend under these conditions, from now on.

        Return what has changed since the backend's latest outcomes, by name.
        """
        with self._lock:
            key = conditions_key(conditions)
            before = self.conditions.get(self.current.get(backend, ""), dict(conditions))
            self.conditions[key], self.current[backend] = dict(conditions), key
        return {
            name: f"{before.get(name, 'absent')}, now {conditions.get(name, 'absent')}"
            for name in sorted({*before, *conditions})
            if before.get(name) != conditions.get(name)
        }

    def counted(self, backends: Iterable[str], checks: Iterable[str]) -> list[Outcome]:
        """Return the outcomes of some checks of some backends under their latest conditions."""
        names, keys = set(checks), {backend: self.current.get(backend, "") for backend in backends}
        return [
            outcome
            for outcome in self._outcomes
            if outcome.name in names
            and outcome.backend in keys
            and outcome.key == keys[outcome.backend]
        ]

    def is_done(self, check: str, backend: str) -> bool:
        """Return True if a check of a backend needs no repetition."""
        return self._entry(check, backend) in self._done

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            added = replace(outcome, key=self.current.get(outcome.backend, ""))
            self._outcomes = [one for one in self._outcomes if _case(one) != _case(added)]
            self._outcomes.append(added)
            self._write()

    def begin(self, check: str, backend: str) -> None:
        """Forget what an earlier start found in a check of a backend, under these conditions."""
        begun = (check, backend, self.current.get(backend, ""))
        with self._lock:
            self._outcomes = [
                one for one in self._outcomes if (one.name, one.backend, one.key) != begun
            ]

    def repeat(self, check: str, backend: str) -> None:
        """Let a check of a backend run again, although it is done."""
        with self._lock:
            self._done = [entry for entry in self._done if entry != self._entry(check, backend)]

    def finish(self, check: str, backend: str) -> None:
        with self._lock:
            self._done.append(self._entry(check, backend))
            self._write()

    def _entry(self, check: str, backend: str) -> str:
        return f"{check} {backend} {self.current.get(backend, '')}"

    def _write(self) -> None:
        if self._path is None:
            return
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "hardware": self.hardware,
            "conditions": self.conditions,
            "current": self.current,
            "done": self._done,
            "checks": [dataclasses.asdict(outcome) for outcome in self._outcomes],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        unfinished.write_text(json.dumps(whole, indent=1, ensure_ascii=False, default=str) + "\n")
        unfinished.replace(self._path)


def as_text(outcomes: Iterable[Outcome]) -> str:
    """Return a line for each outcome, and how many there are of each status."""
    shown = list(outcomes)
    counts = Counter(outcome.status for outcome in shown)
    total = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return "\n".join([*(one.line for one in shown), total or "nothing was checked"])


def _case(outcome: Outcome) -> tuple[str, ...]:
    return outcome.name, outcome.backend, outcome.implementation, outcome.case, outcome.key
