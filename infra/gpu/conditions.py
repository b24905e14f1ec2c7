"""What an outcome depends on, besides the GPU: packages, driver and code.

An outcome that was measured under other conditions does not count: the check is repeated.
"""

import hashlib
import importlib.metadata
import json
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from workloads.backends.registry import find_backend

_ROOT = Path(__file__).parents[2]
_CODE = ("orchestrator", "workloads", "infra/gpu", "tests/building")
_LIBRARIES = re.compile(r"nvidia-(?!ml-py$)|jax-cuda|libtpu|triton$")
"""CUDA's and cuDNN's packages, which all backends of an environment load."""


def conditions_of(backend: str, driver: str | None) -> dict[str, str]:
    """Return the versions that the outcomes of a backend depend on, by name.

    They are read from the installed packages: TensorFlow itself only knows the cuDNN of its build.
    """
    packages = {
        distribution.metadata["Name"].lower(): distribution.version
        for distribution in importlib.metadata.distributions()
    }
    own = {*find_backend(backend).recorded_distributions, "keras", "numpy"}
    kept = {
        name: version for name, version in packages.items() if name in own or _LIBRARIES.match(name)
    }
    return {
        "python": platform.python_version(),
        **dict(sorted(kept.items())),
        "driver": driver or "none",
        **code_version(),
    }


def conditions_key(conditions: Mapping[str, str]) -> str:
    """Return a short name of some conditions."""
    text = json.dumps(conditions, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def code_version(root: Path = _ROOT) -> dict[str, str]:
    """Return the commit of the code and whether files differ from it, and a digest of the files."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    code = [f":(glob){folder}/**/*.py" for folder in _CODE]
    commit = _git(root, "log", "-1", "--format=%h", "--", *code) or "unknown"
    changed = _git(root, "status", "--porcelain", "--", *code)
    return {
        "commit": f"{commit}, and changes" if changed else commit,
        "code": digest.hexdigest()[:12],
    }


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
    except OSError:  # git is not installed: a downloaded archive
        return ""
    return done.stdout.strip()
