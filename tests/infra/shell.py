"""Shell scripts, checked by shellcheck."""

from __future__ import annotations

import shutil
import subprocess

from tests.lacking import skip_here


def check(script: str) -> None:
    """Fail if shellcheck reports an error; skip the test if shellcheck may be missing."""
    parsed = subprocess.run(
        ["bash", "-n"], input=script, capture_output=True, text=True, check=False
    )
    assert parsed.returncode == 0, parsed.stderr
    if shutil.which("shellcheck") is None:
        skip_here("shellcheck is not installed here: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", "--shell=bash", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
