"""A custom workload whose memory is compared: one trainer per trial, its texts in MLflow."""

from __future__ import annotations

import pytest

from tests.integration.sweeping import Home

pytestmark = pytest.mark.full

NAME = "memory"


def test_trials_whose_memory_is_compared_have_fresh_trainers(joining: Home) -> None:
    home = joining
    spec = home.spec(
        NAME,
        workload="tests.workloads.examples.echo_memory:run",
        settings={"epochs": 2},
        search={"objectives": {"accuracy": "maximize", "peak_rss_mib": "minimize"}},
        arms={"implementations": ["numpy/loop", "numpy/other"]},
    )
    done = home.run("run", spec).expect(0)
    assert "each trial in a fresh trainer process: peak_rss_mib is an objective" in done.err
    assert "Every trial had a fresh trainer process: peak memory is comparable" in done.out
    assert {run.data.tags["trainer_trials"] for run in home.children(NAME)} == {"0"}
    assert all(arm["measures"]["peak_rss_mib"]["n"] == 2 for arm in home.report(NAME)["arms"])

    texts = [home.artifact(run, "texts/echoes.txt") for run in home.children(NAME)]
    assert all(len(text.splitlines()) == 8 for text in texts)
    assert [record["outcome"]["artifacts"]["echoes.txt"] for record in home.finished(NAME)]
    (home.sweep(NAME) / "1" / "journal.jsonl").unlink()
    second_run = home.run("run", spec).expect(0)
    assert "All trials were done already" in second_run.err
    assert [home.artifact(run, "texts/echoes.txt") for run in home.children(NAME)] == texts
    assert [record["outcome"]["artifacts"] for record in home.finished(NAME)] == [{}] * 4
