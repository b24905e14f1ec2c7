"""Promises and findings, stored as JSON and printed as text."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import binom

VERSION = 2
"""Of a notebook's file; one of another version is not continued."""

SURE = 0.99
"""The confidence with which a count must break a promise about a share."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, the result, and whether it was kept; `details` explain it."""

    promise: str
    result: str
    kept: bool
    details: Sequence[str] = ()

    def text(self) -> str:
        """Format the finding in a few lines."""
        lines = [f"{'kept  ' if self.kept else 'BROKEN'} {self.promise}"]
        lines += [f"       found: {self.result}", *(f"       {line}" for line in self.details)]
        return "\n".join(lines)


@dataclass(slots=True)
class Notebook:
    """All findings and answers of single sweeps so far, so that an interrupted run can resume.

    `begun` names the folder of its sweeps; a fresh run has a folder of its own.
    """

    path: Path
    begun: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    version: int = VERSION

    @classmethod
    def open(cls, path: Path, *, fresh: bool) -> Notebook:
        """Open a notebook file, or start a new notebook."""
        kept = {} if fresh or not path.exists() else json.loads(path.read_text(encoding="utf-8"))
        if kept.get("version") != VERSION:
            return cls(path, f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}")
        return cls(path, **kept)

    def once(
        self, name: str, asked: str, find: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Return a sweep's answer: from `find`, or the kept one if its spec `asked` is the same."""
        digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
        if self.answers.get(name, {}).get("asked") != digest:
            when = time.strftime("%Y-%m-%d %H:%M")
            self.answers[name] = {**find(), "asked": digest, "asked_at": when}
            self.write()
        answer: Mapping[str, Any] = self.answers[name]
        return answer

    def conclude(self, part: str, findings: Sequence[Finding], seconds: float) -> None:
        """Keep the findings of a part."""
        self.findings[part] = [asdict(finding) for finding in findings]
        self.seconds[part] = self.seconds.get(part, 0.0) + round(seconds, 1)
        self.write()

    def write(self) -> None:
        """Write the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        content = asdict(self)
        del content["path"]
        new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        new.replace(self.path)

    def of(self, part: str) -> list[Finding]:
        """Return the findings of a part."""
        return [Finding(**stored) for stored in self.findings.get(part, [])]


def most_by_chance(n: int, share: float) -> int:
    """Return the largest number of hits in n draws that the promised share allows."""
    return int(binom.ppf(SURE, n, share))


def fewest_by_chance(n: int, share: float) -> int:
    """Return the smallest number of hits in n draws that the promised share allows."""
    return int(binom.ppf(1 - SURE, n, share))
