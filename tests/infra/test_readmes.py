"""The README of each folder of `infra/` is short, complete, and names existing files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.infra.documents import INFRA, ROOT

FOLDERS = sorted(path for path in INFRA.iterdir() if path.is_dir())
READMES = [INFRA / "README.md", *(folder / "README.md" for folder in FOLDERS)]
REQUIRED_WORDS = ("one command", "cost", "secrets", "checked", "not checked")


def by_folder(path: Path) -> str:
    return path.parent.name


def files_named(readme: Path) -> set[str]:
    """Return the paths in code spans and commands: spans with a slash or a file ending."""
    text = readme.read_text()
    spans = set(re.findall(r"`((?:\.\./)?[\w-]+(?:/[\w./-]*|\.(?:yaml|sbatch|txt|ini)))`", text))
    return spans | set(re.findall(r"(?<![\w/~])((?:infra|sweeps)/[\w/-]+(?:\.\w+)*)", text))


@pytest.mark.parametrize("readme", READMES, ids=by_folder)
class TestReadme:
    def test_is_at_most_a_page(self, readme: Path) -> None:
        assert len(readme.read_text().splitlines()) <= 60

    def test_names_existing_files(self, readme: Path) -> None:
        for name in files_named(readme):
            places = (readme.parent / name, ROOT / name)
            assert any(place.exists() for place in places), name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_readme_covers_cost_secrets_and_checks(folder: Path) -> None:
    text = " ".join((folder / "README.md").read_text().lower().split())
    assert not [word for word in REQUIRED_WORDS if word not in text]
    if folder.name != "images":  # images run nothing
        assert "shut down" in text


def test_every_folder_is_in_the_table() -> None:
    named = set(re.findall(r"`(\w+)/`", (INFRA / "README.md").read_text()))
    assert named == {folder.name for folder in FOLDERS}


def test_every_file_is_named_by_a_readme() -> None:
    for folder in FOLDERS:
        text = (folder / "README.md").read_text()
        for path in folder.rglob("*"):
            is_exempt = path.name.startswith(".") or path.suffix == ".dockerignore"
            if path.is_file() and path.name != "README.md" and not is_exempt:
                names = (path.name, f"{path.parent.name}/")
                assert any(name in text for name in names), path
