"""A backend is a folder and an entry: the light half of the page's example, in a copy."""

from pathlib import Path

from tests.adding.copied_project import copy_project
from tests.documents import ROOT, blocks
from workloads.backends.registry import backends

LIGHT_HALF = blocks("python", ROOT / "docs" / "adding" / "backend.md")[0][1]


def test_a_backend_is_one_folder_and_an_entry(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    folder = project.folder / "workloads" / "backends" / "acme"
    folder.mkdir()
    (folder / "__init__.py").write_text(f'"""Acme."""\n\n{LIGHT_HALF}', encoding="utf-8")
    registry = "workloads/backends/registry.py"
    project.insert_after(
        registry,
        "from workloads.backends.backend import Backend",
        "from workloads.backends.acme import Acme\n",
    )
    project.insert_after(registry, "    PyTorch(),", "    Acme(),\n")
    observed = project.observe("tests.adding.observe_backend")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["backends"] == [*backends(), "acme"]
    assert observed["parsed"] == "acme/portable"
    assert observed["reason"] == "Acme is not compiled by XLA: leave +xla out"
    assert observed["not installed"] == "acme is not installed here: pip install acme"
    assert observed["in schema"] is True
    assert observed["pages"] == ["workloads.md"]
