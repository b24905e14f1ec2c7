"""Two builds of a commit are equal, and a package knows its commit."""

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.documents import ROOT
from tests.lacking import skip_here
from tests.release.__main__ import build_twice


@pytest.mark.full
def test_packages_are_reproducible_and_have_their_commit(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        skip_here("no git checkout")
    built = build_twice(tmp_path)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    head = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("orchestrator/commit.txt").decode() == commit
        assert "orchestrator/sweeps/quickstart.yaml" in opened.namelist()
    with tarfile.open(sdist) as archive:
        names = {Path(name).relative_to(Path(name).parts[0]) for name in archive.getnames()}
    for name in ("CHANGELOG.md", "CITATION.cff", "LICENSE", "orchestrator/commit.txt"):
        assert Path(name) in names


def test_public_ci_runs_what_ci_runs_here() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    (job,) = workflow["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    assert workflow["permissions"] == {"contents": "read"}
