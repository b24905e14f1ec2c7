"""Functions of a notebook or a script as workloads: their identity, and what is refused."""

import json
import linecache
import subprocess
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from orchestrator.execution.session_functions import FunctionUnusable, functions_as_entries
from orchestrator.execution.trainer_process import trainer_command, trainer_environment
from workloads.own_code import code_folders, read_code

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


def code_digest(function: Any) -> str:
    with functions_as_entries({"workload": function}) as places:
        code = read_code(places["workload"])
        assert code is not None
        return code.digests["python_session/code.py"]


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


def test_the_modules_of_the_user_that_it_imports_belong_to_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beside.py").write_text("def f():\n    pass\n")
    train = session("def train(trial):\n    import beside\n    return beside.f()\n").train
    with functions_as_entries({"workload": train}) as places:
        code = read_code(places["workload"])
        assert code is not None
        names = {"beside.py", "python_session/__init__.py", "python_session/code.py"}
        assert {*code.digests} == names


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
