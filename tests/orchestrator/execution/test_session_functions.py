"""Functions of a notebook or a script as workloads: their identity, and what is refused."""

import dataclasses
import json
import linecache
import os
import subprocess
import sys
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.trial import SweepIdentity
from orchestrator.core.version import ROOT
from orchestrator.execution.session_functions import FunctionUnusable, functions_as_entries
from orchestrator.execution.trainer_process import trainer_command, trainer_environment
from tests.building.trials import build_identity
from workloads.own_code import code_folders, find_package, read_code
from workloads.session_functions import load_functions

CELLS = """
import json as text_format

FACTOR = 3
TABLE = {"a": [1, 2]}

class Cell:
    size = 2
    def area(self):
        return FACTOR * self.size

def inner():
    return text_format.dumps(TABLE), Cell().area()

def unused():
    return 1

def train(trial):
    inner()
    raise ValueError("odd")
"""


def session(text: str, *, has_source: bool = True) -> types.ModuleType:
    """Return a module like the `__main__` of a notebook, or of `python -c`, without source text."""
    module, name = types.ModuleType("__main__"), f"<cell {hash(text)}>"
    exec(compile(text, name if has_source else "<string>", "exec"), module.__dict__)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # as IPython
    return module


def code_digests(function: Any) -> Mapping[str, str]:
    with functions_as_entries({"workload": function}) as places:
        code = read_code(places["workload"])
        assert code is not None
        return code.digests


def identity_of(function: Any) -> SweepIdentity:
    return build_identity(code=code_digests(function))


def code_digest(function: Any) -> str:
    return code_digests(function)["python_session/code.py"]


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("", "", False),
        ("return 1", "return 2", False),  # of a function that nothing calls
        ("raise ValueError", "raise KeyError", True),
        ("FACTOR = 3", "FACTOR = 4", True),
        ("[1, 2]", "[1, 3]", True),
        ("size = 2", "size = 3", True),
        ("FACTOR * self.size", "FACTOR + self.size", True),
        ("import json as", "import pickle as", True),
    ],
)
def test_the_identity_has_the_code_and_what_it_reads(
    before: str, after: str, differs: bool
) -> None:
    for has_source in (True, False):
        first = code_digest(session(CELLS, has_source=has_source).train)
        changed = session(CELLS.replace(before, after), has_source=has_source)
        assert (code_digest(changed.train) != first) == differs


def test_changes_are_named_and_earlier_sweeps_without_parts_are_compared_as_a_whole() -> None:
    before, changed = (
        identity_of(session(text).train)
        for text in (CELLS, CELLS.replace("FACTOR = 3", "FACTOR = 4"))
    )
    assert before.code_changes(changed) == ["changed: FACTOR"]
    of_release = dataclasses.replace(
        before, code={name: digest for name, digest in before.code.items() if "/parts/" not in name}
    )
    assert of_release.code_changes(before) == []
    assert len(of_release.code_changes(changed)) == 1
    other_whole = {**before.code, "python_session/code.py": "0"}  # two parts had one file name
    assert len(before.code_changes(dataclasses.replace(before, code=other_whole))) == 1


def test_the_order_of_sets_does_not_change_the_identity() -> None:
    text = """
import functools
LABELS = {"negative", "neutral", "positive", "other", ("a", 1)}
BY_NAME = {"a": [frozenset(LABELS), {"b", "c"}], "numbers": {*map(str, range(99))}}

class Cell:
    kinds = {"x", "y", "z"}

def train(trial):
    return LABELS, BY_NAME, Cell, trial in {"train", "test", "validate"}
"""
    program = (
        f"from {__name__} import *; print(code_digest(session({text!r}, has_source=False).train))"
    )
    command = [sys.executable, "-c", program]
    digests = {
        subprocess.check_output(command, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT)
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    for before, after in (('"c"', '"d"'), ('"x"', '"w"'), ('"test"', '"try"'), ("99", "98")):
        changed = session(text.replace(before, after), has_source=False)
        assert code_digest(changed.train) != code_digest(session(text, has_source=False).train)


def test_a_cached_function_is_sent_with_a_cache_of_its_own() -> None:
    text = """
import functools
START = 1

@functools.lru_cache(maxsize=7)
def fibonacci(n):
    return START if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def train(trial):
    return fibonacci(30), fibonacci.cache_parameters()["maxsize"]
"""
    with functions_as_entries({"workload": session(text).train}) as places:
        package = find_package(places["workload"].partition(":")[0])
        assert package is not None
        sent = load_functions(str(package / "__init__.py"))
    assert sent["train"](None) == (1_346_269, 7)
    changed = session(text.replace("START = 1", "START = 2")).train
    assert code_digest(changed) != code_digest(session(text).train)


def test_the_modules_of_the_user_that_it_imports_belong_to_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beside.py").write_text("def f():\n    pass\n")
    train = session("def train(trial):\n    import beside\n    return beside.f()\n").train
    with functions_as_entries({"workload": train}) as places:
        code = read_code(places["workload"])
        assert code is not None
        assert {*code.digests} == {
            "beside.py",
            *(f"python_session/{name}.py" for name in ("__init__", "code")),
            *(f"python_session/parts/{name}.py" for name in ("its_imports", "train")),
        }


def test_a_trainer_imports_it_and_names_the_line_of_an_error() -> None:
    train = session(CELLS).train
    with functions_as_entries({"workload": train}) as places:
        done = subprocess.run(
            trainer_command(code_folders()),
            input=json.dumps({"workload": places["workload"], "implementation": "python/plain"}),
            env=trainer_environment(None, "cpu"),
            capture_output=True,
            text=True,
            check=False,
        )
    failure = json.loads(done.stdout.splitlines()[-1])
    first, *calls = failure["message"].splitlines()
    line = CELLS.splitlines().index('    raise ValueError("odd")') + 1
    assert first == f"ValueError: odd, at notebook cell:{line}"
    assert 'raise ValueError("odd")' in "".join(calls)


def test_what_cannot_be_sent_is_refused_by_its_name() -> None:
    lock = threading.Lock()

    def train(trial: Any) -> Any:
        return lock

    with pytest.raises(FunctionUnusable, match="train reads lock, lock, which"):
        enter(workload=train)
    unnamed: tuple[object, ...] = (lambda trial: {}, print, Path)
    for wrong in unnamed:
        with pytest.raises(FunctionUnusable, match="workload: expected a function with a name"):
            enter(workload=wrong)


def test_two_functions_of_one_name_are_refused() -> None:
    first, second = session(CELLS).train, session(CELLS).train
    with pytest.raises(FunctionUnusable, match="different names"):
        enter(model=first, data=second)


def enter(**given: object) -> None:
    with functions_as_entries(given):
        pass
