"""How a sweep is started, for texts that say what to type next: a command, or a call in Python."""

import json
import shlex
from dataclasses import asdict, dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class StartCommand:
    """The start of a sweep as its user typed it: a command, or a call of `rnnsweep.run_sweep`.

    Attributes:
        words: The command and its spec, such as `rnnsweep run mine.yaml`. In Python, the arguments
            of the call as source text, the spec first.
        overrides: `KEY=VALUE` as typed after `--set`; in Python the value is source text.
        options: The options after them, such as `--retry-failed`.
        in_python: Whether it was a call in Python.
    """

    words: tuple[str, ...] = ("rnnsweep", "run", "SPEC")
    overrides: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    in_python: bool = False

    def __str__(self) -> str:
        """Return what is typed: a command quoted for a shell, or a call in Python."""
        if not self.in_python:
            set_words = (word for override in self.overrides for word in ("--set", override))
            return shlex.join([*self.words, *set_words, *self.options])
        spec, *arguments = self.words
        if self.overrides:
            pairs = (text.partition("=") for text in self.overrides)
            inner = ", ".join(f'"{key}": {source}' for key, _, source in pairs)
            arguments.insert(0, f"{{{inner}}}")
        flags = (f"{flag.removeprefix('--').replace('-', '_')}=True" for flag in self.options)
        return f"rnnsweep.run_sweep({', '.join([spec, *arguments, *flags])})"

    def with_value(self, key: str, value: int | str) -> Self:
        """Return the start with another value of a key of the spec."""
        kept = (text for text in self.overrides if text.partition("=")[0].strip() != key)
        text = repr(value) if self.in_python else str(value)
        return replace(self, overrides=(*kept, f"{key}={text}"))

    def with_flags(self, *flags: str) -> Self:
        """Return the start with these flags too, such as `--fresh`."""
        added = (flag for flag in flags if flag not in self.options)
        return replace(self, options=(*self.options, *added))

    def when_quiet(self) -> Self:
        """Return the start that first waits for a quiet machine; unchanged if it cannot wait."""
        if self.in_python:
            return replace(self, words=(*self.words, "wait_quiet_s=1800"))
        if self.words[1] == "submit":
            return self
        return replace(self, options=(*self.options, "--wait-quiet", "30m"))

    @property
    def address(self) -> tuple[str, ...]:
        """The option of the cluster to which the sweep was submitted; nothing for any other."""
        if self.in_python or self.words[1] != "submit" or "--address" not in self.words:
            return ()
        at = self.words.index("--address")
        return self.words[at : at + 2]

    def reading(self, command: str, sweep: str) -> str:
        """Return the command that reads the sweep where it was started: `rnnsweep status NAME`."""
        return shlex.join(["rnnsweep", command, sweep, *self.address])

    def to_json(self) -> str:
        """Return the start as a text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the start that `to_json` wrote."""
        fields = json.loads(text)
        texts = {name: tuple(fields[name]) for name in ("words", "overrides", "options")}
        return cls(**texts, in_python=fields["in_python"])


UNKNOWN_START = StartCommand()
"""The start of a sweep whose file is not known."""
