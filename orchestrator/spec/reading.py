"""YAML to a checked SweepSpec; the errors of a file are reported together, with places.

There are three rounds: errors of the notation, of single values, and of values that do not fit
together. A later round needs the earlier ones without errors.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from orchestrator.spec import checks, prices, yaml_locations
from orchestrator.spec.errors import Path, from_pydantic
from orchestrator.spec.fields import Strict
from orchestrator.spec.hardware import HardwareEntry
from orchestrator.spec.precision import (
    SHORT_FORMS,
    BlocksSpec,
    DisturbedSpec,
    MarginsSpec,
    MeasureSpec,
    Published,
)
from orchestrator.spec.prices import Price
from orchestrator.spec.space import Choices, Objective, Range, Search
from orchestrator.spec.sweep_spec import Arms, Limits, SweepSpec

_MODELS: Mapping[Path, type[Strict]] = {
    (): SweepSpec,
    ("search",): Search,
    ("search", "space", "*", "choices"): Choices,
    ("search", "space", "*", "range"): Range,
    ("search", "objectives", "*"): Objective,
    ("arms",): Arms,
    ("arms", "hardware", "*"): HardwareEntry,
    ("limits",): Limits,
    ("prices", "*"): Price,
    ("measure",): MeasureSpec,
    ("blocks",): BlocksSpec,
    ("disturbed",): DisturbedSpec,
    ("margins",): MarginsSpec,
    ("published", "*"): Published,
}


def load(path: pathlib.Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """Read and check a spec file.

    Args:
        path: a YAML file in UTF-8.
        overrides: `dotted.key=YAML`, set over the values of the file and checked with them.

    Raises:
        SpecError: the file cannot be read or is wrong; it has all problems.
    """
    text = yaml_locations.read_text(path, "a spec file")
    return parse(text, source=str(path), overrides=overrides, folder=path.parent)


def parse(
    text: str,
    *,
    source: str,
    overrides: Sequence[str] = (),
    folder: pathlib.Path | None = None,
) -> SweepSpec:
    """Check a spec that is given as text; `source` names it in messages.

    Files that it names are looked up in `folder`.

    Raises:
        SpecError: the text is wrong; it has all problems.
    """
    document = yaml_locations.read(
        text, source=source, overrides=overrides, short_forms=SHORT_FORMS
    )
    try:
        spec = SweepSpec.model_validate(prices.with_price_file(document, folder))
    except ValidationError as error:
        raise document.refusal(from_pydantic(error, _MODELS)) from None
    if findings := checks.inconsistencies(spec):
        raise document.refusal(findings)
    return spec
