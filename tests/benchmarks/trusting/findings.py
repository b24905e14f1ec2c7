"""What a part of the proof promised and what was found: kept as JSON, printed as text."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import binom

SURE = 0.99
"""How sure a count must be before it breaks a promise about a share."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise of a part, and whether it was kept; `details` are lines for whoever asks why."""

    part: str
    promise: str
    found: str
    kept: bool
    details: tuple[str, ...] = ()

    def text(self) -> str:
        """A few lines."""
        lines = [f"{'kept  ' if self.kept else 'BROKEN'} {self.part}: {self.promise}"]
        lines += [f"       found: {self.found}", *(f"       {each}" for each in self.details)]
        return "\n".join(lines)


@dataclass(slots=True)
class Notebook:
    """All that was found so far, beside the answers of single sweeps: an interrupted proof goes on.

    `begun` names the folder of its sweeps: a proof that begins anew has one of its own.
    """

    path: Path
    begun: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, fresh: bool) -> Notebook:
        """Of that file, with what stands in it."""
        if fresh or not path.exists():
            return cls(path, f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}")
        return cls(path, **json.loads(path.read_text(encoding="utf-8")))

    def once(
        self, name: str, asked: str, find: Callable[[], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """What was found of a sweep: by `find`, unless just that was asked before.

        Args:
            name: the sweep's.
            asked: all that it was asked; kept as a digest, since another question needs an answer
                of its own.
            find: gets the answer.
        """
        digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
        if self.answers.get(name, {}).get("asked") != digest:
            when = time.strftime("%Y-%m-%d %H:%M")
            self.answers[name] = {**find(), "asked": digest, "asked_at": when}
            self.write()
        found: Mapping[str, Any] = self.answers[name]
        return found

    def conclude(self, part: str, found: Sequence[Finding], seconds: float) -> None:
        """Keep what a part found."""
        self.findings[part] = [asdict(each) for each in found]
        self.seconds[part] = self.seconds.get(part, 0.0) + round(seconds, 1)
        self.write()

    def write(self) -> None:
        """Write the file whole, or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        told = asdict(self)
        del told["path"]
        new.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        new.replace(self.path)

    def all(self) -> list[Finding]:
        """Every finding, part by part."""
        return [
            Finding(**{**each, "details": tuple(each["details"])})
            for part in self.findings.values()
            for each in part
        ]


def most_by_chance(n: int, share: float) -> int:
    """Of n draws, the most hits that a share as promised allows, `SURE` of the time."""
    return int(binom.ppf(SURE, n, share))


def fewest_by_chance(n: int, share: float) -> int:
    """Of n draws, the fewest hits that a share as promised allows, `SURE` of the time."""
    return int(binom.ppf(1 - SURE, n, share))
