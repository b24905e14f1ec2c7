"""Backends from outside the packages, which an installed package names; and who names our own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.backends.foreign.packages import ROOT, install
from tests.workloads.shared_trainer import expect_package
from workloads.backends.registry import backends


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the orchestrator knows where a package with backends is installed."""
    folder = tmp_path_factory.mktemp("packages")
    done = subprocess.run(
        [sys.executable, "-m", "tests.workloads.backends.use_foreign_backends"],
        env=os.environ | install(folder),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "backend nameless is left out" in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_foreign_backends_follow_ours_and_broken_ones_are_skipped(known: Any) -> None:
    assert known["backends"] == [*backends(), "array", "mirror"]
    assert sorted(known["unusable"]) == ["absent", "again", "nameless", "wrong"]


def test_foreign_backends_are_in_specs_plans_and_lists(known: Any) -> None:
    assert known["parsed"] == "mirror/portable+polished"
    assert "array|mirror" in known["schema"] and "|polished))*$" in known["schema"]
    assert known["arms"] == ["mirror/portable"]
    assert known["impossible"] == {
        "mirror/fused": "Mirror has no library call for a whole stack of layers",
        "array/portable": "Keras computes no gradients with NumPy",
    }
    assert {"keras", "tensorflow"} <= set(known["peak_versions"])


def test_the_doctor_starts_foreign_backends(known: Any) -> None:
    expect_package("jax")  # Keras' NumPy backend imports it
    checks = known["checks"]
    assert checks["mirror"][0] == checks["array"][0] == "ok"
    assert "sees CPU" in checks["array"][1]
    status, text = checks["absent"]
    assert status == "missing" and "nowhere_at_all" in text


NO_BACKEND = re.compile(
    r"(tensorflow|jax|torch)/(auto|portable|cudnn|fused)"  # an example of an implementation
    r'|torch\.nn\.Module|written_in="torch"'  # modules
    r"|backend = 'tensorflow'"  # an example of a query
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
