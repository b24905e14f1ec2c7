"""Specs with random damage: each is read, or refused with its errors, and never anything else."""

import random
import re
import time
from pathlib import Path

import pytest

from orchestrator.spec import parse_spec
from orchestrator.spec.spec_errors import SpecError
from tests.faults.conftest import Faults
from tests.faults.hostile_inputs import SPEC_VALUES

FILES = sorted(Path(__file__).parents[2].glob("sweeps/*.yaml"))


def damage(text: str, draw: random.Random) -> str:
    """Return a text with one to three faults: lines lost, doubled or shifted, values replaced."""
    for _ in range(draw.randint(1, 3)):
        lines = text.split("\n")
        at = draw.randrange(len(lines))
        match draw.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(draw.randrange(len(lines)), lines[at])
            case 2:
                lines[at] = " " * draw.randint(0, 8) + lines[at].lstrip()
            case 3 | 4:
                lines[at] = re.sub(
                    r":.*", lambda _: f": {draw.choice(SPEC_VALUES)}", lines[at], count=1
                )
            case 5:
                place = draw.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:place] + chr(draw.randrange(0x2100)) + lines[at][place:]
        text = "\n".join(lines) or "x"
    return text


@pytest.mark.parametrize("part", range(2))  # for two processes
def test_damaged_specs_are_refused_soon(faults: Faults, part: int) -> None:
    draw, number = faults(300, 1_000)
    draw.seed(draw.random() + part)
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    refused = 0
    for _ in range(number):
        text, began_s = damage(draw.choice(texts), draw), time.process_time()
        try:
            parse_spec(text, source="a.yaml")
        except SpecError as error:
            refused += 1
            assert len(str(error)) < 20_000 and "\x1b" not in str(error)
        assert time.process_time() - began_s < 5, text
    assert 0.2 < refused / number < 1.0
