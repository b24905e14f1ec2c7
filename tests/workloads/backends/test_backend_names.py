"""A backend's name stands in its own folder alone, so that another one is a folder, too."""

import re
from pathlib import Path

from tests.documents import ROOT
from workloads.backends.registry import backends

NO_BACKEND = re.compile(
    r"(tensorflow|jax|torch)/(auto|portable|cudnn|fused)"  # an example of an implementation
    r'|torch\.nn\.Module|written_in="torch"'  # modules
    r"|backend = 'tensorflow'"  # an example of a query
    r'|Extra\("gp", "torch"\)'  # a package that one of Optuna's samplers is written in
    r"|tensorflow/tensorflow(#|/issues/)60192"  # a defect of a library, as its project numbers it
    r"|googleapis\.com/tensorflow/"  # where Keras' data sets are
)

OF_MODULES = ("modules", "diagnostics/module_inspection.py", "measuring/module_training.py")
"""What runs PyTorch modules, below `workloads`: they are models that no other backend has."""


def test_no_other_file_names_a_backend() -> None:
    named = re.compile(rf"\b({'|'.join(backends())})\b")
    naming = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if named.search(NO_BACKEND.sub("", line))
    ]
    assert naming == []


def _sources() -> list[Path]:
    generated = ("spec.schema.json", "report.schema.json")
    return [
        path
        for package in ("orchestrator", "workloads", "rnnsweep")
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in (".py", ".jinja", ".toml", ".yaml", ".json")
        and path.name not in generated
        and not any(
            path.is_relative_to(ROOT / "workloads" / part) for part in ("backends", *OF_MODULES)
        )
    ]
