"""Commands in processes of their own, and waiting for what they do."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    def expect(self, code: int = 0) -> Self:
        """Check the exit code and that there is no traceback; return self."""
        assert self.code == code, f"exit code {self.code}\n{self.out[-6000:]}\n{self.err[-6000:]}"
        assert "Traceback" not in self.out + self.err, self.err
        return self

    def refused(self, *words: str) -> None:
        """Check for exit code 2, an empty stdout and these words on stderr."""
        self.expect(2)
        assert self.out == ""
        for word in words:
            assert word in self.err, f"expected {word!r} in\n{self.err}"


class Command(subprocess.Popen[bytes]):
    """A running command in a session of its own, with its output in files."""

    def __init__(
        self, words: Iterable[object], environ: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        out, err = self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environ,
            cwd=cwd,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self.poll() is None

    def printed(self, *descriptors: int) -> str:
        files = [self._files[number - 1].fileno() for number in descriptors or (1, 2)]
        return "".join(os.pread(file, 10_000_000, 0).decode(errors="replace") for file in files)

    def until(self, words: str, timeout_s: float = 180) -> None:
        wait_for(lambda: words in self.printed() or not self.running, timeout_s, self.printed)
        assert words in self.printed(), self.printed()[-6000:]

    def done(self, timeout_s: float = 300) -> Done:
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.printed()}") from None
        return Done(self.returncode, self.printed(1), self.printed(2))


def python(
    *words: object, environ: Mapping[str, str] = os.environ, cwd: Path | None = None
) -> Done:
    return Command([sys.executable, *words], environ, cwd).done(600)


def wait_for(
    condition: Callable[[], Value],
    timeout_s: float = 180,
    describe: Callable[[], object] = str,
    every_s: float = 0.02,
) -> Value:
    """Wait for what must come: a limit costs time only in a test that fails.

    A condition that takes long, such as a query, is asked less often: the CPUs are for what is
    waited for.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        asked_s = time.monotonic()
        if value := condition():
            return value
        now_s = time.monotonic()
        assert now_s < deadline_s, f"nothing after {timeout_s} s; {describe()}"
        time.sleep(max(every_s, 4 * (now_s - asked_s)))
