"""A backup as in `docs/operation.md`, made while a sweep runs, is restored and continued."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import wait_for
from tests.documents import ROOT
from tests.integration.sweeping import Home

_BLOCK = re.compile(r"```sh\nhome=.*?\n(.*?)```", re.DOTALL)


def back_up(home: Path, backup: Path) -> None:
    """Run the commands of the page."""
    (commands,) = _BLOCK.findall((ROOT / "docs" / "operation.md").read_text(encoding="utf-8"))
    script = f'set -e\nhome="{home}" backup="{backup}"\n{commands}'
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)


@pytest.mark.full
def test_a_backup_of_a_running_sweep_is_restored_and_continued(home: Home, tmp_path: Path) -> None:
    arms = ["python/a", "python/waits"]
    spec = home.spec("kept", {"sleep_s": 1.0}, implementations=arms, configs=8)
    home.gate.touch()
    with home.running("run", spec, "--yes") as command:
        wait_for(lambda: home.children("kept"), describe=command.printed)
        home.gate.unlink()  # the next trial of one arm waits
        wait_for(home.waiting.exists, describe=command.printed)
        back_up(home.path, tmp_path / "moved home")
        command.kill()
        command.wait()
    recorder = "orchestrator.storage.tracking"  # writes artifacts until it ends, too
    wait_for(lambda: not [one for one in home.processes() if recorder in one.info["cmdline"]])
    restored = Home(tmp_path / "moved home")
    code = restored.run("check", "kept", "--format", "json").code
    assert code in (0, 1)  # the journal may have a trial that the store lacks
    home.gate.touch()
    artifacts = sorted((home.path / "mlartifacts").rglob("*"))
    prometheus = tmp_path / "kept.prom"
    restored.run("run", spec, "--yes", "--prometheus", prometheus).expect()
    assert sorted((home.path / "mlartifacts").rglob("*")) == artifacts  # the copy has its own
    checked = json.loads(restored.run("check", "kept", "--format", "json").expect().out)
    assert (checked["agrees"], checked["trials"]) == (True, {"journal": 16, "store": 16})
    assert restored.run("report", "kept").expect().out
    status = json.loads(restored.run("status", "kept", "--format", "json").expect().out)
    (row,) = status["sweeps"]
    assert (row["state"], row["driver"], row["trials"]["ended"]) == ("complete", None, 16)
    assert (row["heartbeat"]["has_ended"], row["heartbeat"]["not_in_store"]) == (True, 0)
    assert 'rnnsweep_trials_ended{sweep="kept"} 16\n' in prometheus.read_text()
