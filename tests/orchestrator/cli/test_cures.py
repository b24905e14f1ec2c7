"""The commands that reports, plans and errors print: each can be typed, and does what it says."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest

import rnnsweep
from orchestrator.cli.main import main
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.render import ReportSummary, render, summarise
from orchestrator.spec import load_spec
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.specs import build_spec_text
from tests.building.trials import build_failed_trial, build_trial
from tests.documents import ROOT

_PRINTED = re.compile(r"rnnsweep ([a-z]+(?:[^\n;`)(,.·]|\.(?=[\w/]))*)")
"""A command in a text that is not wrapped, up to the punctuation that ends it."""

_SPACE = {"dropout": {"low": 0.0, "high": 0.5}}
SEARCHES: dict[str, dict[str, Any]] = {
    "random": {"sampler": "random", "configs": 4, "space": _SPACE},
    "few choices": {"sampler": "random", "configs": 4, "space": {"units": [4, 8, 16, 32]}},
    "choices": {"sampler": "random", "configs": 4, "space": {"units": [*range(8, 16)]}},
    "grid": {"sampler": "grid", "configs": None, "space": {"layers": [1, 2], "units": [8, 16]}},
    "list": {"sampler": None, "space": None, "configs": [{"units": n} for n in (8, 12, 16, 20)]},
    "auto": {"sampler": "random", "configs": {"interval": 0.05}, "space": _SPACE},
}
STARTS = {
    "run": StartCommand(("rnnsweep", "run", "mine.yaml"), ("seed=1", "repeats=1")),
    "submit": StartCommand(
        ("rnnsweep", "submit", "mine.yaml", "--address", "http://head:8265"),
        ("margins={speed: 0.03}",),
        ("--home", "/data"),
    ),
    "python": StartCommand(("'mine.yaml'", "home='runs'"), ("seed=1", "repeats=1"), in_python=True),
}


def printed_commands(text: str) -> list[list[str]]:
    found = [shlex.split(words) for words in _PRINTED.findall(text)]
    return [words for words in found if words[0] in main.commands]


def parsed(words: list[str]) -> click.Context:
    """Return the context of a command, as it is typed; fail if it cannot be typed so."""
    name, *arguments = words
    with main.make_context("rnnsweep", [name]) as parent:
        context = main.commands[name].make_context(name, arguments, parent)
        context.close()
        return context


def calls_of_python(text: str) -> list[Any]:
    """Return the arguments of each printed call of `rnnsweep.run_sweep`, which is made here."""
    run_sweep = Mock(spec=rnnsweep.run_sweep)  # it refuses what the function does not take
    for call in re.findall(r"rnnsweep\.run_sweep\([^)]*\)", text):
        eval(call, {"rnnsweep": SimpleNamespace(run_sweep=run_sweep)})
    return run_sweep.call_args_list


def build_trials(problem: str) -> list[FinishedTrial]:
    blocks = 4 if problem == "few" else 7
    trials = [
        build_trial(
            block,
            arm,
            metrics={"step_ms": 10.0 + 3 * ((block * 7 + (arm == XLA) * 5) % 4)},
            trainer_trials=0,
            disturbance={"other_processes": 80.0} if problem == "busy" else {},
        )
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    if problem == "failed":
        trials += [build_failed_trial(blocks, XLA), build_trial(blocks, PORTABLE)]
    return trials


def build_summary(search: str, problem: str, start: StartCommand) -> ReportSummary:
    """Return a sweep with a problem, as its spec `mine.yaml` and its start would have it."""
    spec = Path("mine.yaml")
    spec.write_text(build_spec_text(**SEARCHES[search]))
    loaded = load_spec(spec)
    changes: dict[str, Any] = {"sampler": loaded.search.sampler.name, "start": start}
    changes |= {"space_size": loaded.search.size()}
    if search == "auto":
        changes["criteria"] = ReportCriteria(auto_blocks=AutoBlocks())
    if problem == "missing":
        changes |= {"expected_trials": 99, "state": "stopped"}
    return summarise(build_record(build_trials(problem), **changes))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("problem", ["few", "open", "missing", "failed", "busy"])
def test_a_report_prints_commands_that_its_spec_accepts(search: str, problem: str) -> None:
    starts, reading, waits = [], set[str](), set[str]()
    for start in STARTS.values():
        summary = build_summary(search, problem, start)
        for is_full in (False, True):
            text = render(summary, "text", width=3_000, full=is_full)
            for words in printed_commands(text):
                context = parsed(words)
                if "spec" in context.params:
                    starts.append((context.params["spec"], context.params["overrides"]))
                    assert words[0] == start.words[1]
                    waits |= {"run"} if context.params.get("wait_quiet_s") else set()
                else:
                    reading.add(words[0])
                    place = "http://head:8265" if "submit" in start.words else None
                    assert context.params.get("address") == place
            for call in calls_of_python(text):
                path, *others = call.args
                overrides = [f"{key}={json.dumps(value)}" for key, value in dict(*others).items()]
                starts.append((Path(path), overrides))
                assert call.kwargs["home"] == "runs" and start.in_python
                waits |= {"python"} if "wait_quiet_s" in call.kwargs else set()
    assert reading == {"report", "best"}
    assert waits == ({"run", "python"} if problem == "busy" else set())
    assert len(starts) >= 2 * len(STARTS) or problem == "open"
    for path, overrides in starts:
        load_spec(path, overrides)


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, with X for what is filled in."""
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )


def test_every_command_that_a_text_names_exists_with_its_options() -> None:
    named = 0
    for file in (ROOT / "orchestrator").rglob("*.py"):
        for text in texts_of(ast.parse(file.read_text(encoding="utf-8"))):
            for words in re.findall(r"rnnsweep ([a-z]+(?: +(?:[\w./=#-]+))*)", text):
                name, *arguments = words.split()
                command = main.commands.get(name)
                if command is None:
                    continue
                options = {option for param in command.params for option in param.opts}
                asked = {word.partition("=")[0] for word in arguments if word.startswith("-")}
                named += 1
                assert asked <= {*options, "--help"}, (file, words)
    assert named > 30
