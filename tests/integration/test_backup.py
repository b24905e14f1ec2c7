"""A backup as in `docs/cluster.md`, made while sweeps run, is restored and continued."""

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
    (commands,) = _BLOCK.findall((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"))
    script = f'set -e\nhome="{home}" backup="{backup}"\n{commands}'
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)


@pytest.mark.full
def test_a_backup_of_two_sweeps_that_share_a_cluster_is_restored_and_continued(
    joining: Home, tmp_path: Path
) -> None:
    arms = ["python/a", "python/waits"]
    first = joining.spec("first", {"sleep_s": 1.0}, implementations=arms, configs=4)
    second = joining.spec("second", configs=1)
    joining.gate.touch()
    with joining.running("run", first) as holding:
        wait_for(lambda: joining.children("first"), describe=holding.printed)
        joining.gate.unlink()  # the next trial of one arm waits
        wait_for(joining.waiting.exists, describe=holding.printed)
        back_up(joining.path, tmp_path / "moved home")
        with joining.running("run", second) as waiting:
            waiting.until("another sweep may be using")
            joining.gate.touch()
            holding.done().expect(0)
            waiting.done().expect(0)
    joining.expect_exactly_once("first", 8)
    joining.expect_exactly_once("second", 2)

    artifacts = sorted((joining.path / "mlartifacts").rglob("*"))
    restored = Home(tmp_path / "moved home", joining.address)
    restored.run("run", first).expect()
    assert sorted((joining.path / "mlartifacts").rglob("*")) == artifacts  # the copy has its own
    restored.expect_exactly_once("first", 8)
    status = json.loads(restored.run("status", "first", "--format", "json").expect().out)
    (row,) = status["sweeps"]
    assert (row["state"], row["driver"], row["trials"]["ended"]) == ("complete", None, 8)
    assert (row["heartbeat"]["has_ended"], row["heartbeat"]["not_in_store"]) == (True, 0)
