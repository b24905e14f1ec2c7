"""What a package gets when it is built: the links of its page, and the commit of its code.

Set RNNSWEEP_REPOSITORY to the repository's address to build a release.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class RepositoryMetadata(MetadataHookInterface):
    """The hook that Hatchling calls for each build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the URLs, and a readme with whole addresses."""
        address = os.environ.get("RNNSWEEP_REPOSITORY", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if address:
            text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{address}/raw/HEAD/", text)
            text = re.sub(r"(\]\()(?!https?:)", rf"\1{address}/blob/HEAD/", text)
        pages = {"Source": "", "Issues": "/issues", "Changelog": "/blob/HEAD/CHANGELOG.md"}
        metadata["urls"] = {name: address + page for name, page in pages.items() if address}
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CommitRecord(BuildHookInterface[Any]):
    """The hook that adds `orchestrator/commit.txt`, which `orchestrator/core/version.py` reads.

    An installed package is in no repository, and a wheel may be built from an sdist, which has the
    file already.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, if the commit is known; an editable installation has its repository."""
        if version == "editable":
            return
        file = Path(self.root) / "orchestrator" / "commit.txt"
        if not file.exists():
            commit = os.environ.get("RNNSWEEP_COMMIT") or self._commit()
            if not commit:
                return
            file = Path(tempfile.mkdtemp(prefix="rnnsweep-build-")) / file.name
            file.write_text(f"{commit}\n", encoding="utf-8")
        build_data["force_include"][str(file)] = f"orchestrator/{file.name}"  # git ignores it

    def _commit(self) -> str:
        tracked = ["git", "-C", self.root, "ls-files", "--error-unmatch", "hatch_build.py"]
        describe = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=12"]
        for command in (tracked, describe):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError:
                return ""
            if done.returncode != 0:
                return ""
        return done.stdout.strip()
