"""Commands as they are typed, in this process."""

from collections.abc import Callable

import pytest

from orchestrator.cli.main import main

Run = Callable[..., tuple[int, str, str]]


def typed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err
