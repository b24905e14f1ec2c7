"""Reading the files of a spec, with errors in its terms."""

from __future__ import annotations

import difflib
import pathlib

from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import Problem, SpecError


def read_text(path: pathlib.Path, kind: str) -> str:
    """Return the text of a file; `kind` describes it in messages (`a spec file`).

    Raises:
        SpecError: it cannot be read, or is not text in UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(4 * yaml_locations.MAX_CHARACTERS + 1)
        # A file that is too long is refused for its length, not for a character cut in two.
        too_long = len(raw) > 4 * yaml_locations.MAX_CHARACTERS
        return raw.decode("utf-8-sig", errors="replace" if too_long else "strict")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        received = f"the byte 0x{raw[error.start]:02x}"
        problem = Problem(f"{path}:{line}", "", "text in UTF-8", received, "save it as UTF-8")
    except FileNotFoundError:
        others = {other.stem: other for other in path.parent.glob("*.y*ml")}
        near = difflib.get_close_matches(path.stem, others, n=1)
        hint = f"did you mean {others[near[0]]}?" if near else ""
        problem = Problem(str(path), "", kind, "no such file", hint)
    except OSError as error:
        received = (error.strerror or str(error)).lower()
        problem = Problem(str(path), "", f"{kind} that can be read", received)
    except ValueError as error:  # a path with a null byte
        problem = Problem(repr(str(path)), "", kind, str(error))
    raise SpecError(str(path), [problem])
