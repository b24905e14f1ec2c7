"""Each folder of `infra/` says in a page what its user has to know, and says it of what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.infra.documents import INFRA, ROOT

FOLDERS = sorted(path for path in INFRA.iterdir() if path.is_dir())
READMES = [INFRA / "README.md", *(folder / "README.md" for folder in FOLDERS)]
PROMISED = ("one command", "cost", "secrets", "checked", "not checked")


def by_folder(path: Path) -> str:
    return path.parent.name


def files_named(readme: Path) -> set[str]:
    """Paths in code spans and commands; a span without a slash and a dot is no path."""
    text = readme.read_text()
    spans = set(re.findall(r"`((?:\.\./)?[\w-]+(?:/[\w./-]*|\.(?:yaml|sbatch|txt|ini)))`", text))
    return spans | set(re.findall(r"(?<![\w/~])((?:infra|sweeps)/[\w/-]+(?:\.\w+)*)", text))


@pytest.mark.parametrize("readme", READMES, ids=by_folder)
class TestReadme:
    def test_is_at_most_a_page(self, readme: Path) -> None:
        assert len(readme.read_text().splitlines()) <= 60

    def test_names_what_exists(self, readme: Path) -> None:
        for name in files_named(readme):
            places = (readme.parent / name, ROOT / name)
            assert any(place.exists() for place in places), name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_folder_says_what_it_costs_where_secrets_go_and_what_was_checked(folder: Path) -> None:
    text = " ".join((folder / "README.md").read_text().lower().split())
    assert not [word for word in PROMISED if word not in text]
    if folder.name != "images":  # which runs nothing
        assert "shut down" in text


def test_every_folder_is_in_the_table() -> None:
    named = set(re.findall(r"`(\w+)/`", (INFRA / "README.md").read_text()))
    assert named == {folder.name for folder in FOLDERS}


def test_every_file_is_named_by_a_readme() -> None:
    for folder in FOLDERS:
        text = (folder / "README.md").read_text()
        for path in folder.rglob("*"):
            shown = path.name.startswith(".") or path.suffix == ".dockerignore"
            if path.is_file() and path.name != "README.md" and not shown:
                near = (path.name, f"{path.parent.name}/")
                assert any(each in text for each in near), path
