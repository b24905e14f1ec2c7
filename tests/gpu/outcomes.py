"""Outcomes of the checks, and their file: one JSON object, written after each outcome."""

import dataclasses
import datetime
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FORMAT, VERSION = "rnnsweep-gpu-checks", 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case of a check."""

    name: str
    case: str
    status: Literal["passed", "failed", "skipped"]
    backend: str = ""
    implementation: str = ""
    reason: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)

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
    status: Literal["failed", "passed"] = "failed" if reason else "passed"
    backend = implementation.partition("/")[0]
    return Outcome(
        name, case, status, backend, implementation, reason or "", measured, expected or {}
    )


class Record:
    """The outcomes on some `hardware`; `machine` has facts that may change, such as the driver."""

    def __init__(
        self, path: Path | None, hardware: Mapping[str, Any], machine: Mapping[str, Any]
    ) -> None:
        self.hardware, self.machine = dict(hardware), dict(machine)
        self.done: list[str] = []  # checks and backends that need no repetition
        self.versions: dict[str, Any] = {}
        self.outcomes: list[Outcome] = []  # in the order of their arrival
        self._path, self._lock = path, threading.Lock()
        if path is not None and path.exists():
            content = json.loads(path.read_text())
            kinds = [(FORMAT, VERSION, self.hardware)]
            kinds += [tuple(content.get(name) for name in ("format", "version", "hardware"))]
            if kinds[0] != kinds[1]:
                raise SystemExit(
                    f"{path}: expected {kinds[0]}; received {kinds[1]}: choose another"
                )
            self.versions, self.done = content["versions"], content["done"]
            self.outcomes = [Outcome(**fields) for fields in content["checks"]]

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes = [one for one in self.outcomes if _case(one) != _case(outcome)]
            self.outcomes.append(outcome)
            self._write()

    def begin(self, check: str, backend: str) -> None:
        """Forget what an earlier start found in a check of a backend."""
        with self._lock:
            self.outcomes = [o for o in self.outcomes if (o.name, o.backend) != (check, backend)]

    def finish(self, check: str, backend: str) -> None:
        with self._lock:
            self.done.append(f"{check} {backend}")
            self._write()

    @property
    def failure(self) -> str | None:
        """Why the device is not in order: something failed, or no kernel was proven there."""
        if any(outcome.status == "failed" for outcome in self.outcomes):
            return "something failed"
        ran = [str(o.measured.get("ran")) for o in self.outcomes if o.status == "passed"]
        is_proven = any(one.startswith(("cudnn", "fused")) for one in ran)
        return None if is_proven else "no kernel was proven"

    def as_text(self) -> str:
        counts = Counter(outcome.status for outcome in self.outcomes)
        total = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return "\n".join([*(one.line for one in self.outcomes), total or "nothing was checked"])

    def _write(self) -> None:
        if self._path is None:
            return
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "hardware": self.hardware,
            "versions": self.versions,
            "done": self.done,
            "checks": [dataclasses.asdict(outcome) for outcome in self.outcomes],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f".{self._path.name}.unfinished")
        unfinished.write_text(json.dumps(whole, indent=1, ensure_ascii=False, default=str) + "\n")
        unfinished.replace(self._path)


def _case(outcome: Outcome) -> tuple[str, str, str, str]:
    return outcome.name, outcome.backend, outcome.implementation, outcome.case
