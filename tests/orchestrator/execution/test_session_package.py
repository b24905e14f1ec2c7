"""Functions of a notebook or a script as workloads: their identity, and what is refused."""

import json
import linecache
import subprocess
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.execution.session_package import FunctionUnusable, functions_as_entries
from orchestrator.execution.trainer_process import trainer_command, trainer_environment
from workloads.own_code import code_folders, find_package, read_code
from workloads.session_functions import load_functions

CELLS = """
from dataclasses import dataclass
import beside

FACTOR = 3

@dataclass
class Cell:
    size: int = 2
    def area(self):
        return FACTOR * self.size

def inner():
    return Cell().area(), [beside.f() for _ in range(2)]

def unused():
    return 1

def train(trial):
    inner()
    raise ValueError("odd")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("beside.py").write_text("def f():\n    pass\n")


def session(text: str, *, has_source: bool = True) -> types.ModuleType:
    """Return a module like the `__main__` of a notebook, or of text piped into Python."""
    module, name = types.ModuleType("__main__"), f"<cell {hash(text)}>" if has_source else "<stdin>"
    exec(compile(text, name, "exec"), module.__dict__)
    if has_source:  # as IPython does
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return module


def code_digests(function: Any) -> Mapping[str, str]:
    with functions_as_entries({"workload": function}) as places:
        code = read_code(places["workload"])
        assert code is not None
        return code.digests


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("", "", False),
        ("return 1", "return 2", False),  # of a function that nothing calls
        ("FACTOR = 3", "FACTOR = 4", False),  # a value
        ("raise ValueError", "raise KeyError", True),
        ("range(2)", "range(3)", True),
        ("FACTOR * self.size", "FACTOR + self.size", True),
    ],
)
def test_the_identity_has_the_functions_and_the_functions_that_these_name(
    before: str, after: str, differs: bool
) -> None:
    first = code_digests(session(CELLS).train)
    changed = code_digests(session(CELLS.replace(before, after)).train)
    assert (changed != first) == differs


def test_the_modules_of_the_user_that_a_function_uses_belong_to_the_code() -> None:
    names = {"beside.py", "python_session/__init__.py", "python_session/imports.py"}
    names |= {f"python_session/functions/{name}.py" for name in ("train", "inner", "Cell.area")}
    assert {*code_digests(session(CELLS).train)} == names
    local = session("def train(trial):\n    import beside\n    return beside.f()\n").train
    assert "beside.py" in code_digests(local)


def test_a_cached_function_is_sent_with_a_cache_of_its_own() -> None:
    text = """
import functools

@functools.lru_cache(maxsize=7)
def fibonacci(n):
    return 1 if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def train(trial):
    return fibonacci(30), fibonacci.cache_parameters()["maxsize"]
"""
    with functions_as_entries({"workload": session(text).train}) as places:
        package = find_package(places["workload"].partition(":")[0])
        assert package is not None
        sent = load_functions(str(package / "__init__.py"))
    assert sent["train"](None) == (1_346_269, 7)
    changed = session(text.replace("1 if", "2 if")).train
    assert code_digests(changed) != code_digests(session(text).train)


def test_a_trainer_imports_it_and_names_the_line_of_an_error() -> None:
    with functions_as_entries({"workload": session(CELLS).train}) as places:
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


def test_what_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()

    def train(trial: Any) -> Any:
        return lock

    with pytest.raises(FunctionUnusable, match=r"train cannot be sent .*_thread\.lock"):
        enter(workload=train)
    with pytest.raises(FunctionUnusable, match="the source of train cannot be read"):
        enter(workload=session(CELLS, has_source=False).train)
    unnamed: tuple[object, ...] = (lambda trial: {}, print)
    for wrong in unnamed:
        with pytest.raises(FunctionUnusable, match="workload: expected a function with a name"):
            enter(workload=wrong)
    with pytest.raises(FunctionUnusable, match="rename one"):
        enter(model=session(CELLS).train, data=session(CELLS).train)


def enter(**given: object) -> None:
    with functions_as_entries(given):
        pass
