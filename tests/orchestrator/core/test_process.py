"""The running process and its code: restored state, quoted errors, the commit."""

import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator.cluster import code_bundle
from orchestrator.core.errors import last_line, one_line
from orchestrator.core.stop_signal import Stopped, StopSignal
from orchestrator.core.version import COMMIT, WORKLOAD_COMMIT, _git_commit, workload_commit
from orchestrator.execution.job import recorded_environment


def test_the_first_signal_asks_and_the_second_ends_at_once() -> None:
    calls: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal(lambda: calls.append("first"), lambda: calls.append("second")) as stop:
        stop.check()
        signal.raise_signal(signal.SIGTERM)
        assert calls == ["first"]
        with pytest.raises(Stopped):
            stop.check()
        signal.raise_signal(signal.SIGINT)
        assert calls == ["first", "second", "first"]
    assert signal.getsignal(signal.SIGTERM) == before
    with StopSignal(lambda: calls.append("hang-up")) as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.is_set and calls[-1] == "hang-up"
    asked = StopSignal(lambda: calls.append("asked"))
    with asked, pytest.raises(Stopped), asked.at_once():
        signal.raise_signal(signal.SIGINT)
    assert "asked" not in calls


def test_an_error_is_quoted_in_one_line_and_its_last_line_is_the_last_with_a_word() -> None:
    assert last_line(OSError("ray::probe()\n  main()\nKeyError: 'a'\n.\n")) == "KeyError: 'a'"
    assert last_line(OSError(r"expected 'a\nb'")) == r"expected 'a\nb'"
    assert last_line(OSError("...\n\n")) == "OSError"
    assert last_line(OSError(r'{"msg": "main()\nKeyError: 1\n"}'), escaped=True) == "KeyError: 1"
    error = RuntimeError("Version mismatch:\n    Ray: 2.60.0\n\n    Python: 3.12.4\n")
    assert one_line(error, between="; ") == "Version mismatch:; Ray: 2.60.0; Python: 3.12.4"
    assert one_line(TimeoutError()) == "TimeoutError"


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
    commit = workload_commit(tmp_path, ["file"])
    assert commit is not None and commit.endswith("-dirty") and clean.startswith(commit[:7])
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    assert not str(workload_commit(tmp_path, ["file"])).endswith("-dirty")
    (tmp_path / "new").touch()
    assert str(workload_commit(tmp_path, ["file", "new"])).endswith("-dirty")
    (tmp_path / "package.py").write_text("")  # in the user's repository, and not of it
    assert _git_commit(tmp_path / "package.py") is None


def test_code_that_was_copied_names_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMIT, "0123456789ab-dirty")
    monkeypatch.setenv(WORKLOAD_COMMIT, "ba")
    commits = {COMMIT: "0123456789ab-dirty"}
    of_built_in, of_own = map(
        code_bundle.environ, ("image_rows", "tests.integration.mixed:by_kernel")
    )
    assert {name: of_built_in.get(name) for name in commits} == commits
    assert of_built_in.keys() == of_own.keys() - {WORKLOAD_COMMIT}
    assert of_own[WORKLOAD_COMMIT] == "ba"
    assert recorded_environment.__wrapped__()["rnnsweep_commit"] == "0123456789ab-dirty"
