"""Package metadata that depends on where the repository is: the links of the package's page.

Set RNNSWEEP_REPOSITORY to the repository's address to build a release.
"""

import os
import re
from pathlib import Path
from typing import Any

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
