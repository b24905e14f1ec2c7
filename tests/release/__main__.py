"""Build the sdist and the wheel of the last commit into `dist/`: `make dist`.

They are built twice, in folders of other names and at other times, and must be equal to the byte;
so must a wheel that is built from the sdist. `twine check` reads their metadata. Then the wheel is
installed, with the pinned dependencies, in a new environment of each Python that is here, and its
commands are run in an empty home. Nothing is published.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str] | None = None) -> None:
    """Build, compare, check, install."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--pythons", nargs="*", default=[], help="install the wheel for these")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="rnnsweep-dist-") as name:
        folder = Path(name)
        built = build_twice(folder)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(built, ROOT / "dist")
        packages = sorted((ROOT / "dist").iterdir())
        _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, packages)])
        (wheel,) = (ROOT / "dist").glob("*.whl")
        for python in chosen.pythons:
            if shutil.which(python) is None:
                _tell(f"{python} is not here: not installed for it")
                continue
            install(wheel, python, folder / Path(python).name)
            _tell(f"{wheel.name} works on {python}")
        for package in packages:
            _tell(f"{hashlib.sha256(package.read_bytes()).hexdigest()}  {package.name}")


def build_twice(folder: Path) -> Path:
    """Build the last commit in two folders, and return the packages; raise if they differ."""
    first, second = (
        _build(_checkout(folder / name / "source"), folder / name / "dist")
        for name in ("one", "another place")
    )
    (sdist,) = first.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    again = _build(unpacked, folder / "again", "wheel")
    for package in first.iterdir():
        for other in (second, again):
            path = other / package.name
            if path.exists() and path.read_bytes() != package.read_bytes():
                raise SystemExit(f"{package.name}: two builds of one commit differ")
    return first


def _checkout(folder: Path) -> Path:
    """Return a folder with the files of the last commit, each with the time of this moment."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    _run(["git", "-C", str(ROOT), "archive", "-o", str(archive), "HEAD"])
    with tarfile.open(archive) as opened:
        opened.extractall(folder)
    for path in folder.rglob("*"):
        path.touch()
    return folder


def _build(source: Path, target: Path, *kinds: str) -> Path:
    commit = _output(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"])
    time_s = _output(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"])
    environ = {**os.environ, "RNNSWEEP_COMMIT": commit, "SOURCE_DATE_EPOCH": time_s}
    targets = [word for kind in kinds or ("sdist", "wheel") for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *targets]
    _run(command, cwd=source, environ=environ)
    return target


def install(wheel: Path, python: str, folder: Path) -> None:
    """Install a wheel in a new environment, and run commands of it in an empty home."""
    _run([python, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run([*pip, "-c", str(ROOT / "requirements.lock"), str(wheel)])
    home = folder / "home"
    home.mkdir()
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "RNNSWEEP_HOME": str(home / "sweeps")}
    rnnsweep = str(folder / "bin" / "rnnsweep")
    for words in (
        ["--version"],
        ["init", "first"],
        ["plan", "first/quickstart.yaml"],
        ["plan", "own-model"],
        ["status", "--format", "json"],
    ):
        _run([rnnsweep, *words], cwd=home, environ=environ)


def _run(command: Sequence[str], cwd: Path = ROOT, environ: Mapping[str, str] = os.environ) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
