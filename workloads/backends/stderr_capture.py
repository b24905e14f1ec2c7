"""What a library writes to the process's standard error, past Python."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Yield a list that has the text as its one item after the block; it is still written, too."""
    captured = list[str]()
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield captured
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            content = file.read()
            captured.append(content.decode(errors="replace"))
            os.write(2, content)
