"""A public name has one meaning: one module defines it, or several by a common contract."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "workloads", "rnnsweep")

SHARED = {
    "main": "the entry point of a program",
    "make_passes": "each backend has its own; its framework calls it",
    "outputs_and_gradients": "each backend has its own; its framework calls it",
    "prove_eager": "each backend has its own; its framework calls it",
    "prove_passes": "each backend has its own; its framework calls it",
    "prove_traced": "each backend has its own; its framework calls it",
    "run_stack": "each backend has its own; its framework calls it",
    "TASK": "each folder of workloads/tasks defines its task",
    "build": "each folder of workloads/tasks has its own; its TASK names it",
    "load": "each folder of workloads/tasks has its own; its TASK names it",
    "best": "a command, named like the function of the Python interface that it calls",
    "compare": "a command, named like the function of the Python interface that it calls",
    "report": "a command, named like the function of the Python interface that it calls",
    "query": "a command, named like the function of the Python interface that it calls",
}
"""Names that several modules define, and what each of them has in common everywhere."""


def public_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the classes, functions, constants and type aliases that a module defines."""
    for statement in statements:
        match statement:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                names = [name]
            case ast.Assign(targets):
                names = [
                    node.id
                    for target in targets
                    for node in ast.walk(target)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                ]
            case ast.AnnAssign(ast.Name(name)):
                names = [name]
            case ast.If(_, body, orelse) | ast.Try(body, _, orelse):
                names = list(public_names([*body, *orelse]))
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def modules_by_name(folders: list[Path]) -> dict[str, list[str]]:
    """Return the modules that define each public name."""
    modules = defaultdict(list)
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for name in set(public_names(tree.body)):
                modules[name].append(str(file.relative_to(folder.parent)))
    return modules


@pytest.fixture(scope="module")
def defined() -> dict[str, list[str]]:
    return modules_by_name([ROOT / package for package in PACKAGES])


def test_a_public_name_has_one_meaning(defined: dict[str, list[str]]) -> None:
    repeated = {name: files for name, files in defined.items() if len(files) > 1}
    assert {name: files for name, files in repeated.items() if name not in SHARED} == {}


def test_every_exception_is_in_use(defined: dict[str, list[str]]) -> None:
    assert [name for name in SHARED if len(defined[name]) < 2] == []
