"""What the files of a user's workload do besides building a model, found without importing them."""

import ast
from collections.abc import Iterator

from workloads.own_code import read_code


def callbacks_of_fit(workload: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the calls of `fit` with callbacks, in the files that the workload names.

    Each is its line, `own.py:31`, with the names of the callbacks' classes as far as the file shows
    them.
    """
    for file, module in _files(workload):
        lists = {
            target.id: node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in _calls(module, "fit"):
            for keyword in call.keywords:
                if keyword.arg == "callbacks" and ast.unparse(keyword.value) not in ("None", "[]"):
                    yield f"{file}:{call.lineno}", _class_names(keyword.value, lists)


def autologging_calls(workload: str) -> Iterator[str]:
    """Yield the lines that switch on MLflow's autologging: `own.py:3`."""
    for file, module in _files(workload):
        yield from (f"{file}:{call.lineno}" for call in _calls(module, "autolog"))


def _class_names(node: ast.expr, lists: dict[str, ast.expr], depth: int = 0) -> tuple[str, ...]:
    """Return the names of the classes in an expression; the expression itself if it has none."""
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(name for item in node.elts for name in _class_names(item, lists, depth))
    if isinstance(node, ast.Call):
        return (ast.unparse(node.func).rpartition(".")[2],)
    if isinstance(node, ast.Name) and node.id in lists and depth < len(lists):
        return _class_names(lists[node.id], lists, depth + 1)
    return (ast.unparse(node),)


def _files(workload: str) -> Iterator[tuple[str, ast.Module]]:
    code = read_code(workload)
    entries = [part for part in workload.split(" with ") if ":" in part] if code else []
    for name in dict.fromkeys(entry.partition(":")[0] for entry in entries):
        assert code is not None  # there are entries
        file = f"{name.replace('.', '/')}.py"
        try:
            yield file, ast.parse((code.folder / file).read_bytes())
        except (OSError, SyntaxError, ValueError):  # the import tells of it
            continue


def _calls(module: ast.Module, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a method, or of a function of a module, of this name."""
    for node in ast.walk(module):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == name:
            assert isinstance(node, ast.Call)
            yield node
