"""The code bundle: enough to run a trial on a node, and no more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cluster import code_bundle
from orchestrator.core.errors import Refusal

REQUEST = '{{"workload": "{workload}", "implementation": "python/a"}}\n'
WORKLOAD = """
from helper import answer

from workloads.context import Context


def run(trial: Context) -> dict[str, float]:
    return {"loss": answer()}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    files = {
        "mine/deep/run.py": WORKLOAD,
        "helper.py": "def answer() -> float:\n    return 0.125\n",
        **dict.fromkeys(("mine/table.csv", ".venv/x.py", "data/big.bin", "orchestrator/x.py"), ""),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return folder


def packed(tmp_path: Path, workload: str) -> Path:
    folder = tmp_path / "packed"
    folder.mkdir()
    code_bundle.pack(folder, workload)
    return folder


def test_a_sampler_of_the_users_is_packed_and_one_of_optuna_is_not(here: Path) -> None:
    names = code_bundle.manifest(classes=["helper:Sampler", "optuna.samplers:TPESampler"])
    assert names.keys() - code_bundle.manifest().keys() == {"helper.py"}


def test_a_trial_of_ones_own_runs_from_what_was_packed(here: Path, tmp_path: Path) -> None:
    folder = packed(tmp_path, "mine.deep.run:run")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["helper.py", "mine", "orchestrator", "rnnsweep", "workloads"]
    assert (folder / "mine" / "table.csv").is_file()
    assert not list(folder.rglob("__pycache__"))
    assert not (folder / "orchestrator" / "x.py").exists()  # ours, not the user's
    done = subprocess.run(
        [sys.executable, "-m", "workloads"],
        input=REQUEST.format(workload="mine.deep.run:run"),
        env={"PYTHONPATH": str(folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert '"loss":0.125' in done.stdout.replace(" ", ""), done.stdout + done.stderr


def test_a_missing_module_is_reported_with_the_places(here: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=f"theirs:run .*{here}"):
        packed(tmp_path, "theirs:run")


def test_only_regular_files_of_the_package_are_bundled(here: Path, tmp_path: Path) -> None:
    mine = here / "mine"
    (mine / "alias.py").symlink_to(mine / "deep" / "run.py")
    (mine / "dangling").symlink_to("nowhere")
    (mine / "itself").symlink_to("itself")
    assert (packed(tmp_path, "mine.deep.run:run") / "mine" / "alias.py").read_text() == WORKLOAD
    for make, reason in (
        (lambda path: path.symlink_to("/etc"), "a link to /etc"),
        (lambda path: path.symlink_to(mine), "a folder that contains it"),
        (os.mkfifo, "not a regular file"),
    ):
        make(mine / "odd")
        with pytest.raises(Refusal, match=f"{mine}/odd .*{reason}"):
            code_bundle.manifest("mine.deep.run:run")
        (mine / "odd").unlink()


def test_data_is_not_bundled_by_accident(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_bundle, "_LIMIT_BYTES", 2**21)
    with (here / "mine" / "weights.bin").open("wb") as file:
        file.truncate(2**21)
    with pytest.raises(Refusal, match=r"mine/weights\.bin \(2 MiB\)"):
        packed(tmp_path, "mine.deep.run:run")
