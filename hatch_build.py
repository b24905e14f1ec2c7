"""Package metadata that depends on where the repository is: links, and the images of its page.

Set RNNSWEEP_REPOSITORY to the repository's address to build a release. Without it the package's
page has neither, because a package does not have the files that README.md links to.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]+)\)")


class RepositoryMetadata(MetadataHookInterface):
    """The hook that Hatchling calls for each build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme, with whole addresses, and the URLs."""
        address = os.environ.get("RNNSWEEP_REPOSITORY", "").rstrip("/")

        def whole(link: re.Match[str]) -> str:
            mark, text, path = link.groups()
            if not address:
                return "" if mark else text
            return f"{mark}[{text}]({address}/{'raw' if mark else 'blob'}/HEAD/{path})"

        text = _LINK.sub(whole, (Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        pages = {"Source": "", "Issues": "/issues", "Changelog": "/blob/HEAD/CHANGELOG.md"}
        metadata["urls"] = {name: address + page for name, page in pages.items() if address}
