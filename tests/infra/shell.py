"""Shell scripts, checked by shellcheck."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def check(script: str) -> None:
    """Fail where shellcheck finds something; skip where it is missing and need not be there."""
    parsed = subprocess.run(
        ["bash", "-n"], input=script, capture_output=True, text=True, check=False
    )
    assert parsed.returncode == 0, parsed.stderr
    if shutil.which("shellcheck") is None and os.environ.get("RNNSWEEP_TEST_ALL") != "1":
        pytest.skip("shellcheck is not installed here: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", "--shell=bash", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
