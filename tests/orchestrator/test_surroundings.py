"""What is recorded beside a trial."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.surroundings import _git_commit, surroundings


def test_the_surroundings_name_versions_and_node_and_nothing_absent() -> None:
    facts = surroundings()
    assert facts["rnnsweep"] == __version__
    assert {"ray", "optuna", "system", "cpu_model", "memory_mib"} <= set(facts)
    assert None not in facts.values()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_changed_checkout_is_marked(tmp_path: Path) -> None:
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
