"""The commit of the running code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.cluster import code_bundle
from orchestrator.core.version import COMMIT, _git_commit
from orchestrator.execution.job import recorded_environment
from tests.lacking import skip_here


def test_a_changed_checkout_is_marked(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        skip_here("git is not installed here: apt-get install git")
    assert _git_commit(tmp_path / "file") is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    (tmp_path / "file").write_text("one")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    clean = _git_commit(tmp_path / "file")
    assert clean is not None
    (tmp_path / "file").write_text("two")
    assert _git_commit(tmp_path / "file") == f"{clean}-dirty"
    installed = tmp_path / ".venv" / "package.py"  # in the user's repository, and not of it
    installed.parent.mkdir()
    installed.write_text("")
    assert _git_commit(installed) is None


def test_code_that_has_travelled_names_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMIT, "0123456789ab-dirty")
    assert code_bundle.environ() == {COMMIT: "0123456789ab-dirty"}
    assert recorded_environment.__wrapped__()["git_commit"] == "0123456789ab-dirty"
