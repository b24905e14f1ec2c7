"""What a tracker takes of names and texts. Every tracker gets what MLflow takes.

Its limits (MLflow 3.17, mlflow/utils/validation.py) are the strictest that we know.
"""

import posixpath
import re

NAME_LIMIT = 250  # MAX_ENTITY_KEY_LENGTH
PARAM_LIMIT = 6000  # MAX_PARAM_VAL_LENGTH
TAG_LIMIT = 8000  # MAX_TAG_VAL_LENGTH
ANSWER_LIMIT = 4400  # of a description: links follow it, and some servers take 5,000 characters


def entity_name(name: str) -> str:
    """Return the name of a metric or param without the characters and paths that are refused."""
    clean = re.sub(r"[^\w.\- :/]", "_", name)[:NAME_LIMIT]
    if posixpath.normpath(clean) != clean or clean.startswith(("/", "..")) or clean == ".":
        clean = clean.replace("/", "_").replace(".", "_") or "_"
    return clean


def storable_text(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, all of which a database takes."""
    # Some databases take no NUL in a text, and none takes a lone surrogate.
    text = text.replace("\0", "␀").encode(errors="replace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"
