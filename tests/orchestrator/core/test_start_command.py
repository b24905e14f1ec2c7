"""How a sweep is started, as texts name it: for a shell, and in Python."""

import shlex

import pytest

from orchestrator.core.start_command import StartCommand

COMMAND = StartCommand(("rnnsweep", "run", "my specs/mine.yaml"), ("prices=[{a: 1}]", "seed=3"))
CALL = StartCommand(("spec", "home='x'"), ("settings.cell='gru'",), in_python=True)


def test_a_command_is_quoted_for_a_shell() -> None:
    words = ["rnnsweep", "run", "my specs/mine.yaml", "--set", "prices=[{a: 1}]", "--set", "seed=3"]
    assert shlex.split(str(COMMAND)) == words
    assert shlex.split(str(COMMAND.with_flags("--fresh"))) == [*words, "--fresh"]


def test_another_value_of_a_key_replaces_the_one_that_was_typed() -> None:
    changed = COMMAND.with_value("seed", 4).with_value("repeats", 2)
    assert changed.overrides == ("prices=[{a: 1}]", "seed=4", "repeats=2")


@pytest.mark.parametrize("start", [COMMAND, CALL])
def test_a_flag_comes_once_and_a_start_survives_json(start: StartCommand) -> None:
    retried = start.with_flags("--retry-failed").with_flags("--retry-failed", "--same-code")
    assert retried.options == ("--retry-failed", "--same-code")
    assert StartCommand.from_json(retried.to_json()) == retried


def test_a_start_waits_for_a_quiet_machine_where_it_can() -> None:
    words = shlex.split(str(COMMAND.with_flags("--fresh").when_quiet()))
    assert words[-3:] == ["--fresh", "--wait-quiet", "30m"]
    assert str(CALL.with_value("seed", 4).when_quiet()).endswith("home='x', wait_quiet_s=1800)")
    submitted = StartCommand(("rnnsweep", "submit", "mine.yaml"))
    assert submitted.when_quiet() == submitted


def test_a_call_has_source_text() -> None:
    call = CALL.with_value("settings.cell", "lstm").with_value("repeats", 2)
    overrides = '{"settings.cell": \'lstm\', "repeats": 2}'
    expected = f"rnnsweep.run_sweep(spec, {overrides}, home='x', fresh=True)"
    assert str(call.with_flags("--fresh")) == expected
