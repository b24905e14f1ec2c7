"""A backend is a folder and an entry: its light half, in a copy of the packages."""

from pathlib import Path

from tests.adding.copied_project import copy_project
from workloads.backends.registry import backends

LIGHT_HALF = '''\
"""Acme."""

from workloads.backends.backend import Backend


class Acme(Backend):
    name = "acme"
    title = "Acme"
    package = "acme"
    install = "pip install acme"
    framework = "workloads.backends.acme.framework:AcmeFramework"
    always_eager = True

    def option_reasons(self, asked):
        if asked.has_option("xla"):
            yield "Acme is not compiled by XLA: leave +xla out"
'''


def test_a_backend_is_one_folder_and_an_entry(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    folder = project.folder / "workloads" / "backends" / "acme"
    folder.mkdir()
    (folder / "__init__.py").write_text(LIGHT_HALF, encoding="utf-8")
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
