"""`rnnsweep plan`, `hardware` and `workloads`, as they are typed: they run nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cluster import connection
from orchestrator.core.trial import Block, FailureRecord, FinishedTrial, Outcome, make_trial
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import parse_spec
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import BlockSuggested, Journal, TrialFinished
from orchestrator.storage.resume import identify, take_over
from tests.building.hardware import build_node
from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.orchestrator.cli.typed_commands import Run


def test_a_machine_without_a_gpu_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "this_machine", lambda: (build_node("a"),))
    assert run("hardware")[0] == 0


def test_the_code_of_a_workload_is_found_next_to_its_spec(run: Run) -> None:
    Path("sweeps").mkdir()
    text = build_spec_text(
        USER_WORKLOAD, workload="beside:run", implementations=["python/a"], baseline="python/a"
    )
    Path("sweeps/mine.yaml").write_text(text)
    assert run("plan", "sweeps/mine.yaml")[0] == 2
    Path("sweeps/beside.py").write_text("def run(trial):\n    pass\n")
    assert run("plan", "sweeps/mine.yaml")[0] == 0


def test_a_plan_has_what_a_start_would_run_without_stopped_arms(run: Run, home: Path) -> None:
    """The baseline fails in each block, the other arm in two of three."""
    code = Path("own_code.py")
    code.write_text("def run(trial):\n    pass\n")
    arms = ["python/a", "python/b"]
    text = build_spec_text(
        USER_WORKLOAD, workload="own_code:run", implementations=arms, baseline=arms[0]
    )
    Path("mine.yaml").write_text(text)
    asked = parse_spec(text, source="spec")
    before = identify(asked, 1)
    laid = make_plan(asked, classify(connection.this_machine()))
    failure = FailureRecord("error", "odd")
    with Journal(SweepFolder(home, "mine").generation(1)) as journal:
        take_over(journal, None, before, asked)
        for index in range(3):
            block = Block(index, {"layers": index + 1})
            journal.append(BlockSuggested(index, block.config, 0.0))
            for arm in laid.arms:
                outcome = Outcome(
                    "failed", 0.0, 1.0, failure=failure, environment=before.code_facts
                )
                if (index, arm.implementation) == (0, "python/b"):
                    outcome = replace(outcome, status="complete", failure=None)
                ended = FinishedTrial(make_trial(before, block, arm, 0), outcome)
                journal.append(TrialFinished(ended))
    for failures, own in ((3, 1), (2, 0)):
        words = ["plan", "mine.yaml", "--set", f"limits.failures={failures}"]
        listing = json.loads(run(*words, "--format", "json")[1])
        assert (listing["format"], listing["version"]) == ("rnnsweep-plan", 5)
        assert (len(listing["arms"]), listing["done"], listing["remaining"]) == (own, 3 * own, 0)
        status, out, err = run(*words, "--nodes", "2 x cpu")
        (fleet,) = json.loads(run(*words, "--nodes", "2 x cpu", "--format", "json")[1])["fleets"]
        assert (fleet["time_left"]["remaining"], sum(fleet["nodes"].values())) == (0, 2)
        assert (status, err) == (0, "") and out.startswith("sweep mine: ")
        assert ("nothing is left to run" in out) == (own == 0)
    code.write_text("def run(trial):\n    return\n")
    assert [run("plan", "mine.yaml", *word)[0] for word in ((), ("--same-code",))] == [2, 0]
