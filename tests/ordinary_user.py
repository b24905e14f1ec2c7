"""A user without rights: what root's rights hide shows as that user.

Where the tests run as root, the user is made by `useradd`. Elsewhere it is whoever runs them.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.lacking import skip_here


@dataclass(frozen=True)
class OrdinaryUser:
    """A user and, where it is not this one, the words before a command that it runs.

    Commands of ours get the right to read every file, because Python itself may lie in root's home;
    `foreign` commands do not.
    """

    name: str
    uid: int
    ours: Sequence[str] = ()
    foreign: Sequence[str] = ()


def make_user(name: str) -> Iterator[OrdinaryUser]:
    """Yield a user; end its processes and remove it at the end."""
    for program in ("useradd", "userdel", "setpriv"):
        if shutil.which(program) is None:
            skip_here(f"{program} is not installed: it makes a user, or runs a command as one")
    subprocess.run(["useradd", "--no-create-home", name], check=True)
    try:
        uid = int(subprocess.check_output(["id", "--user", name], text=True))
        words = [
            "setpriv",
            f"--reuid={name}",
            f"--regid={name}",
            "--clear-groups",
            "--no-new-privs",
        ]
        reads = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
        none = ["--inh-caps=-all", "--ambient-caps=-all"]
        yield OrdinaryUser(name, uid, [*words, *reads, "--"], [*words, *none, "--"])
    finally:
        for process in psutil.process_iter(["uids"]):
            if process.info["uids"] and process.info["uids"].real == uid:
                process.kill()
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Yield a user without root's rights."""
    if os.geteuid() == 0:
        yield from make_user(f"rnnsweep-{os.getpid()}")
    else:
        yield OrdinaryUser(str(os.geteuid()), os.geteuid())


@pytest.fixture
def own_folder(ordinary_user: OrdinaryUser) -> Iterator[Path]:
    """Yield a folder of that user; pytest's own ones are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="rnnsweep-user-"))
    os.chown(folder, ordinary_user.uid, -1)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def other_user() -> Iterator[OrdinaryUser]:
    """Yield a second user of the machine, who is not trusted."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a second user")
    yield from make_user(f"rnnsweep-other-{os.getpid()}")
