"""The formats of what is stored: their numbers, who wrote something, and former numbers.

A `Format` has a number that rises with each change that an older rnnsweep could not read. What is
stored carries the number, and the version and commit of the rnnsweep that wrote it (`WrittenBy`).

From release 0.1.0 on, what a released rnnsweep wrote stays readable. Whoever raises a number adds a
`Migration` from the number before it, next to the format: content of a former number goes through
the migrations one after another, and only then to the (strict) reader of the present number.
Nothing else knows former numbers. A number without a migration to the next one is refused, and so
is a number above the present one: that needs a newer rnnsweep, which the message names.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from orchestrator import __version__
from orchestrator.core.errors import printable
from orchestrator.core.version import commit

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns what the next number has instead of one JSON object."""


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The rnnsweep that wrote something; texts are empty where they are not known."""

    version: str = ""
    commit: str = ""

    def __str__(self) -> str:
        if not self.version:
            return "an unknown version of rnnsweep"
        return f"rnnsweep {self.version}{f' (commit {self.commit})' if self.commit else ''}"


@functools.cache
def this_rnnsweep() -> WrittenBy:
    """Return the version and the commit of this code."""
    return WrittenBy(__version__, commit() or "")


def written_by(value: object) -> WrittenBy:
    """Return who wrote something, from foreign JSON, for messages; what is no text is empty."""
    facts = value if isinstance(value, dict) else {}
    texts = (facts.get(name) for name in ("version", "commit"))
    return WrittenBy(*(printable(text, 80) if isinstance(text, str) else "" for text in texts))


@dataclass(frozen=True, slots=True)
class Format:
    """A stored format.

    Attributes:
        name: What has it, for messages: `a journal`.
        number: The number that this rnnsweep writes.
        migrations: By former number, what makes the next number of one JSON object.
        id: The name of the format in JSON for programs: `rnnsweep-report`. Others have none.
        again: What a user does to have it in the present format, for messages.
    """

    name: str
    number: int
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    id: str = ""
    again: str = "start over with `rnnsweep run SPEC --fresh`"

    @property
    def oldest(self) -> int:
        """The lowest number that is read."""
        number = self.number
        while number - 1 in self.migrations:
            number -= 1
        return number

    def head(self) -> dict[str, Any]:
        """Return the first keys of JSON for programs."""
        rnnsweep = this_rnnsweep()
        return {
            "format": self.id,
            "version": self.number,
            "written_by": {"version": rnnsweep.version, "commit": rnnsweep.commit},
        }

    def reads(self, number: object) -> TypeGuard[int]:
        """Return whether content of this number can be read."""
        return type(number) is int and self.oldest <= number <= self.number

    def migrate(self, content: dict[str, Any], number: int) -> dict[str, Any]:
        """Return content of a number that is read as the present number has it."""
        for former in range(number, self.number):
            content = self.migrations[former](content)
        return content

    def refusal(self, source: str, number: object, writer: WrittenBy) -> str:
        """Return the sentence that refuses content of a source, of a number that is not read."""
        if type(number) is int and number > self.number:
            oldest = "" if self.oldest == self.number else f"{self.oldest} to "
            return (
                f"{source}: {self.name} of format {number}, written by {writer}. This is"
                f" {this_rnnsweep()}, which reads format {oldest}{self.number}: upgrade rnnsweep"
            )
        former = "without a format number" if number is None else f"of format {number}"
        return (
            f"{source}: {self.name} {former}, from before the first release, is no longer read: use"
            f" the rnnsweep that wrote it, or {self.again}"
        )
