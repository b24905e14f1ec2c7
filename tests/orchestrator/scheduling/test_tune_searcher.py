"""The Tune searcher: trials out, outcomes back, and errors of ours that Tune must not swallow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Outcome, outcome_adapter
from orchestrator.execution.job import job_adapter
from orchestrator.scheduling import tune_loop
from orchestrator.scheduling.tune_searcher import BlockSearch, Broken
from tests.orchestrator.scheduling.sample_sessions import Held
from tests.orchestrator.scheduling.test_session import SPEC

RESULT = {
    "outcomes": [outcome_adapter.dump_json(Outcome("complete", 0.0, 1.0)).decode()],
    "done": True,
}


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, SPEC)


@pytest.fixture
def search(held: Held) -> BlockSearch:
    """A searcher whose only node is there, and answers at once."""
    held.present.answers = True
    return BlockSearch(held.session, ("/path",), held.recovery)


def test_it_hands_out_what_lanes_want_and_finishes_at_the_end(
    held: Held, search: BlockSearch
) -> None:
    assert isinstance(search.suggest("a"), dict)
    assert isinstance(search.suggest("b"), dict)
    assert search.suggest("c") is None, "the lane has what it runs, and one more"
    search.on_trial_complete("a", RESULT)
    search.on_trial_complete("b", RESULT)
    assert isinstance(search.suggest("c"), dict)
    assert search.suggest("d") is None
    search.on_trial_complete("c", RESULT)
    assert search.suggest("e") == BlockSearch.FINISHED
    assert len(held.recorded) == 3


def test_a_trial_has_a_fresh_trainer_where_the_spec_wants_it(tmp_path: Path) -> None:
    for name, spec in {"warm": SPEC, "fresh": f"{SPEC}trainer: fresh\n"}.items():
        held = Held(tmp_path / name, spec)
        handed = BlockSearch(held.session, (), held.recovery).suggest("a")
        assert isinstance(handed, dict)
        assert job_adapter.validate_json(handed["job"]).fresh == (name == "fresh")


def test_a_lost_worker_costs_its_trial_an_attempt(held: Held, search: BlockSearch) -> None:
    search.suggest("a")
    search.on_trial_complete("a", None, error=True)
    search.recovery.settle()
    search.suggest("b")
    search.on_trial_complete("b", {"epoch": 1}, error=True)
    search.recovery.settle()
    (lost,) = held.recorded
    assert lost.outcome.failure is not None
    assert lost.outcome.failure.reason == "lost"


def test_a_trial_that_tune_gives_back_costs_nothing(held: Held, search: BlockSearch) -> None:
    first = search.suggest("a")
    for _ in range(3):
        search.on_trial_complete("a")
        second = search.suggest("a")
        assert isinstance(first, dict)
        assert isinstance(second, dict)
        assert job_adapter.validate_json(second["job"]).attempt == 1
        assert second["node_id"] == first["node_id"]
    assert held.recorded == []


def test_a_lost_loop_charges_only_what_can_have_been_running(
    held: Held, search: BlockSearch
) -> None:
    for _ in range(2):
        search.suggest("running")
        search.suggest("waiting")
        search.lose_all()
        search.recovery.settle()
    assert [finished.trial.block for finished in held.recorded] == [0], (
        "its two attempts are used up"
    )
    search.suggest("next")
    search.on_trial_complete("next", RESULT)
    assert [finished.trial.block for finished in held.recorded] == [0, 1]


def test_an_error_of_ours_is_not_tunes_to_handle(
    search: BlockSearch, monkeypatch: pytest.MonkeyPatch
) -> None:

    def broken(*_: object) -> None:
        raise RuntimeError("the view broke")

    search.suggest("a")
    monkeypatch.setattr("orchestrator.cli.progress.PlainLines.trial_finished", broken)
    with pytest.raises(Broken, match="the view broke") as caught:
        search.on_trial_complete("a", RESULT)
    assert isinstance(caught.value.error, RuntimeError)
    assert not isinstance(caught.value, Exception)


def test_a_loop_that_was_left_behind_goes_on_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head was given up, and came back while the sweep was recording what is done."""
    is_back, ended = threading.Event(), threading.Event()
    raised: list[Stopped] = []

    def tuner(search: Any, folder: Path, recovery: Any, check: Callable[[], None]) -> Any:
        def fit() -> None:
            check()
            is_back.wait(60)
            try:
                check()
            except Stopped as error:
                raised.append(error)
            ended.set()

        return SimpleNamespace(fit=fit)

    def head_is_gone() -> None:
        raise Stopped("the head is gone")

    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "1")  # it is set, for the process
    monkeypatch.setattr(tune_loop, "_tuner", tuner)
    session: Any = SimpleNamespace(blocks=SimpleNamespace(done=False))
    recovery: Any = SimpleNamespace(expect_head=head_is_gone)
    with pytest.raises(Stopped, match="the head is gone"):
        tune_loop.run_trials(session, recovery, folder=tmp_path, python_path=(), check=lambda: None)
    is_back.set()
    assert ended.wait(60)
    assert len(raised) == 1
