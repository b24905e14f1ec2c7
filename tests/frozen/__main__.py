"""Freeze a store of this version: `python -m tests.frozen`, or `make frozen-store` (2 minutes)."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.core.formats import this_rnnsweep
from orchestrator.core.version import COMMIT
from tests.adding.copied_project import copy_project
from tests.frozen import FOLDER, FORMATS_FILE, HOME_FILE
from tests.frozen.shapes import formats_now

ROOT = Path(__file__).resolve().parents[2]

SPECS: Mapping[str, Mapping[str, Any]] = {
    "trained": {
        "workload": "image_rows",
        "settings": {"dataset": "digits", "cell": "lstm", "epochs": 2, "samples": 256},
        "search": {
            "sampler": "tpe",
            "configs": 2,
            "space": {"units": {"low": 4, "high": 8}},
            "objectives": {"val_accuracy": "maximize"},
        },
        "arms": {
            "implementations": ["tensorflow/portable", "tensorflow/portable+unroll"],
            "hardware": ["cpu"],
        },
        "baseline": "tensorflow/portable",
    },
    "timed": {
        "workload": "slicing:steady",
        "settings": {"step_s": 0.002, "slower": {"python/b": 1.5}},
        "search": {
            "sampler": "random",
            "configs": {"interval": 0.5, "at_most": 8},
            "space": {"units": {"low": 4, "high": 64}},
        },
        "arms": {"implementations": ["python/a", "python/b"], "hardware": ["cpu"]},
        "measure": "timing",
    },
    "failing": {
        "workload": "failing_workload:train",
        "search": {
            "sampler": "random",
            "configs": 3,
            "space": {"units": {"low": 4, "high": 64}},
            "objectives": {"val_accuracy": "maximize"},
        },
        "arms": {"implementations": ["python/a", "python/fails"], "hardware": ["cpu"]},
        "repeats": 2,
    },
}
"""Sweeps that leave each kind of record: trainings, rounds of slices, failures, generations."""

SWEEPS = ("trained", "timed", "failing", "failing#1")
"""The sweeps whose reports are kept; `failing` has two generations."""


def main() -> None:
    """Run the sweeps, and keep what they leave."""
    store = FOLDER / __version__
    with tempfile.TemporaryDirectory(prefix="rnnsweep-frozen-") as name:
        folder = Path(name)
        # Paths of code are recorded with failures: all code is copied out of this checkout.
        project = copy_project(folder / "packages")
        for module in ("frozen/failing_workload.py", "workloads/examples/slicing.py"):
            shutil.copy(ROOT / "tests" / module, folder)
        environ = {
            **os.environ,
            "RNNSWEEP_HOME": str(folder / "home"),
            "PYTHONPATH": str(project.folder),
            COMMIT: this_rnnsweep().commit,
        }
        environ.pop("MLFLOW_TRACKING_URI", None)

        def rnnsweep(*words: object, may_fail: bool = False) -> bytes:
            command = [sys.executable, "-m", "orchestrator", *map(str, words)]
            done = subprocess.run(
                command, cwd=folder, env=environ, check=False, stdout=subprocess.PIPE
            )
            assert done.returncode in ((0, 1) if may_fail else (0,)), f"{words}: {done.returncode}"
            return done.stdout

        for sweep, spec in SPECS.items():
            (folder / f"{sweep}.yaml").write_text(json.dumps({"name": sweep, **spec}))
            rnnsweep("run", f"{sweep}.yaml", "--quiet", may_fail=True)
        rnnsweep("run", "failing.yaml", "--quiet", "--fresh", may_fail=True)
        kept = folder / "kept"
        kept.mkdir()
        for sweep in SWEEPS:
            rnnsweep("report", sweep, "-o", kept / f"report-{sweep.replace('#', '-')}.json")
        rnnsweep("query", "trained", "-o", kept / "query.json")
        (kept / "hardware.json").write_bytes(rnnsweep("hardware", "--format", "json"))
        shutil.copytree(folder, folder / "home" / "specs", ignore=_ignore_all_but_specs)
        writer = this_rnnsweep()
        about = {"version": writer.version, "commit": writer.commit, "formats": formats_now()}
        (kept / FORMATS_FILE).write_text(f"{json.dumps(about, indent=1)}\n")
        with tarfile.open(kept / HOME_FILE, "w:xz", preset=9) as archive:
            archive.add(folder / "home", "home", filter=_without_owner)
        _expect_nothing_private(folder)
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(kept, store)
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    sys.stdout.write(f"{store}: {size / 1024:.0f} KiB\n")


def _expect_nothing_private(folder: Path) -> None:
    """Raise if a file that is kept names the folder of this checkout."""
    places = (folder / "home", folder / "kept")
    for path in (path for place in places for path in place.rglob("*") if path.is_file()):
        is_kept = _without_owner(tarfile.TarInfo(f"/{path.name}")) is not None
        assert not (is_kept and os.fsencode(ROOT) in path.read_bytes()), path


def _ignore_all_but_specs(_: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith((".yaml", ".py"))]


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out logs, locks and users' names."""
    if member.name.endswith((".log", "/lock", ".lock", ".new", ".pyc")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
