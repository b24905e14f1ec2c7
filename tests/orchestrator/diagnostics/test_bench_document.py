"""The document of a bench: facts, a row for each implementation, and what is doubtful."""

from dataclasses import replace

import pytest

from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FailureRecord
from orchestrator.diagnostics.bench_document import as_document, program_of_fastest
from orchestrator.diagnostics.bench_schedule import Budget, Schedule
from orchestrator.report.document import Section, Tone
from tests.building.arms import PORTABLE, UNROLL, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_fingerprint, build_trial, change_trial


def first(record: SweepRecord, ended: Schedule | None = None) -> Section:
    return as_document(summarise(record), ended).sections[0]


def facts(section: Section) -> dict[str, str]:
    return {fact.label: fact.text for fact in section.facts}


def doubts(section: Section) -> dict[str, str]:
    return {fact.label: fact.text for fact in section.doubts}


def row(section: Section, arm: Arm) -> dict[str, str]:
    """Return the cells of an arm's row by their column."""
    (table,) = section.tables
    (cells,) = [cells for cells in table.rows if cells[0] == arm.implementation]
    return {head.split(" (")[0]: cell for head, cell in zip(table.headers, cells, strict=True)}


def ended(rounds: int, seconds: float | None = None) -> Schedule:
    schedule = Schedule(Budget(seconds, None if seconds else rounds))
    schedule.turns, schedule.load_s, schedule.timed_s = [24] * rounds, 3.0, 12.0
    return schedule


def test_the_fastest_is_compared_with_the_first_implementation() -> None:
    section = first(build_paired_record(8), ended(8))
    fastest = section.facts[0]
    assert fastest.label == "fastest" and fastest.tone == Tone.GOOD
    assert fastest.text.startswith(f"{XLA.implementation}: 1.25 × as fast as ")
    assert "8 rounds of 24 turns in 12 s" in facts(section)["timed"]
    assert row(section, PORTABLE)["speed-up"] == "baseline"
    assert row(section, XLA)["verdict"] == "faster"
    assert row(section, XLA)["ms/step"] == "8.00"
    assert not section.doubts
    assert "jit_compile=True" in program_of_fastest(summarise(build_paired_record(8)))


@pytest.mark.parametrize(
    ("ratio", "fastest", "tone"),
    [(1.0, "the same within", Tone.GOOD), (None, "open: ", Tone.DOUBT)],
    ids=["the same", "open"],
)
def test_implementations_that_are_as_fast_and_open_ones(
    ratio: float | None, fastest: str, tone: Tone
) -> None:
    record = build_paired_record(8, lambda block: ratio or (2.0 if block % 2 else 0.6))
    section = first(record, ended(8))
    assert fastest in section.facts[0].text
    assert section.facts[0].tone == tone
    assert ("open" in doubts(section)) == (ratio is None)
    assert row(section, XLA)["verdict"] == ("open" if ratio is None else "same")
    assert bool(program_of_fastest(summarise(record))) == (ratio is not None)


def test_too_few_rounds_name_the_option_that_gives_a_verdict() -> None:
    section = first(build_paired_record(3), ended(3))
    assert doubts(section)["few rounds"].endswith("--rounds 6")
    assert doubts(section)["few rounds"].startswith("3 of the 6")


def test_a_busy_machine_has_one_row_with_its_numbers() -> None:
    record = build_paired_record(8)
    trials = [
        change_trial(trial, disturbance={"other_processes": 41.0}) if trial.block < 5 else trial
        for trial in record.trials
    ]
    busy = doubts(first(replace(record, trials=tuple(trials)), ended(8)))["busy"]
    for part in ("5 of 8 rounds", "41 %", "8 rounds. ", "--wait-quiet"):
        assert part in busy


def test_an_implementation_that_failed_is_a_row_and_a_doubt() -> None:
    trials = [build_trial(block, PORTABLE) for block in range(6)]
    failure = FailureRecord("crash", "the trainer process ended with SIGSEGV")
    failed = change_trial(build_trial(0, XLA), status="failed", failure=failure, metrics={})
    section = first(build_record([*trials, failed]), ended(6))
    assert row(section, XLA)["verdict"] == "failed"
    assert doubts(section)["failed"].startswith(f"{XLA.implementation}: crash: ")
    assert "one implementation, " in facts(section)["fastest"]


def test_one_implementation_has_its_time_and_no_ratio() -> None:
    trials = [build_trial(block, PORTABLE) for block in range(6)]
    document = as_document(summarise(build_record(trials, [PORTABLE])), ended(6))
    (section,) = document.sections
    assert "10.0 ms per step" in facts(section)["fastest"]
    assert "--export-json" in doubts(section)["no ratio"]
    assert "speed-up" not in row(section, PORTABLE)


def test_other_mathematics_has_no_verdict() -> None:
    arms = (PORTABLE, XLA, UNROLL)
    factors = {PORTABLE: 1.0, XLA: 1.0, UNROLL: 1.5}
    times = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 2.0}
    trials = [
        build_trial(block, arm, step_ms=times[arm], fingerprint=build_fingerprint(factors[arm]))
        for block in range(6)
        for arm in arms
    ]
    section = first(build_record(trials, arms), ended(6))
    assert facts(section)["fastest"].startswith(f"{XLA.implementation}: 1.25 ×")
    assert "50 %" in doubts(section)["other mathematics"]
    assert row(section, UNROLL)["verdict"] == "open (other mathematics)"
    assert not section.notes


def test_equal_mathematics_is_one_note() -> None:
    trials = [
        build_trial(block, arm, fingerprint=build_fingerprint(1.0))
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    (note,) = first(build_record(trials)).notes
    assert "0 %" in note
