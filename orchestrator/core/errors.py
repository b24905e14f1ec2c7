"""What a user can act on: the base of every error that ends in a message and exit code 2.

Such a message often quotes another's error: Ray's, MLflow's and the operating system's have many
lines, or none.
"""


class Refusal(Exception):
    """Nothing was run; the message says where, what was expected, what was received, what next."""


def wrong_version(place: str, kind: str, expected: int, received: object) -> str:
    """Return the sentence that refuses stored data of another format version."""
    version = "no version" if received is None else f"version {received}"
    return (
        f"{place}: expected {kind} of version {expected}, received {version}: use the rnnsweep that"
        " wrote it, or start over with `rnnsweep run SPEC --fresh`"
    )


def last_line(error: Exception, *, escaped: bool = False) -> str:
    """What an error of another process ends with: the rest is the way to it.

    Args:
        error: one without a word is told by its class.
        escaped: its line breaks may be written out, as in the JSON of a server's answer.
    """
    text = str(error).replace("\\n", "\n") if escaped else str(error)
    lines = [line for line in _lines(text) if any(map(str.isalnum, line))]
    return lines[-1] if lines else type(error).__name__


def one_line(error: Exception, between: str = " ") -> str:
    """All that an error says, its lines one after another; its class where it says nothing."""
    return between.join(_lines(str(error))) or type(error).__name__


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
