"""Promises and findings, stored as JSON and printed as text."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError


@dataclass(frozen=True, slots=True)
class Finding:
    promise: str
    result: str
    kept: bool
    details: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [f"{'kept  ' if self.kept else 'BROKEN'} {self.promise}", f"found: {self.result}"]
        return "\n       ".join([*lines, *self.details])


@dataclass(slots=True)
class Notebook:
    """All findings and answers of single sweeps so far, so that an interrupted run can resume."""

    path: Path
    version: Literal[2]
    begun: str  # the folder of its sweeps; a fresh run has its own
    environment: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, fresh: bool) -> "Notebook":
        if path.exists() and not fresh:
            with suppress(ValidationError):
                return _FILE.validate_python({**json.loads(path.read_bytes()), "path": path})
        return cls(path, 2, f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}")

    def once(self, name: str, asked: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
        if self.answers.get(name, {}).get("asked") != digest:
            when = time.strftime("%Y-%m-%d %H:%M")
            self.answers[name] = {**find(), "asked": digest, "asked_at": when}
            self.write()
        return self.answers[name]

    def conclude(self, part: str, findings: Sequence[Finding], seconds: float) -> None:
        self.findings[part] = list(findings)
        self.seconds[part] = self.seconds.get(part, 0.0) + round(seconds, 1)
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_bytes(_FILE.dump_json(self, indent=1, exclude={"path"}) + b"\n")
        new.replace(self.path)

    def text(self, part: str) -> str:
        return "\n".join([f"{part}, {self.seconds[part]:.0f} s", *map(str, self.findings[part])])


_FILE = TypeAdapter(Notebook)
