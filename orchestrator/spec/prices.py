"""Prices of hardware: `prices:` of a spec, as a table or as the name of a file that has one.

    prices: prices.yaml            # in the folder of the spec; the file has one key, prices:
    prices:
      - {hardware: "NVIDIA T4*", usd_per_hour: 0.526, source: …, date: 2026-11-01}
      - {hardware: "*", usd_per_kwh: 0.31, source: our bill, date: 2026-10-01}

The first entry that matches the hardware of a trial counts, as in `arms.hardware`. Without prices
nothing has a cost.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import Finding, SpecError, nearest, shown
from orchestrator.spec.fields import Strict, as_tuple, refusal

_KEY = "prices"


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise refusal("the day of the price, such as 2026-11-21", shown(text)) from error


Text: TypeAlias = Annotated[str, StringConstraints(pattern=r"\S")]
Usd: TypeAlias = Annotated[float, Field(gt=0)]
Day: TypeAlias = Annotated[str, AfterValidator(_date)]


class Price(Strict):
    """The price of one kind of hardware, with its source and date.

    `usd_per_hour` is the price of the machine: of all of it for a CPU arm, and for a GPU arm
    divided by the machine's `gpus`, of which a trial has one. `usd_per_kwh` is the price of the
    energy that was measured. Both add up.
    """

    hardware: Text
    usd_per_hour: Usd | None = None
    gpus: Annotated[int, Field(ge=1)] = 1
    usd_per_kwh: Usd | None = None
    source: Text
    date: Day

    @model_validator(mode="after")
    def _expect_price(self) -> Price:
        if self.usd_per_hour is None and self.usd_per_kwh is None:
            raise refusal("usd_per_hour, usd_per_kwh, or both", "neither")
        return self


Prices: TypeAlias = Annotated[tuple[Price, ...], BeforeValidator(as_tuple)]

PRICE_KEYS = tuple(Price.model_fields)


@dataclasses.dataclass(frozen=True, slots=True)
class PriceTable:
    """The prices of a spec, as plain data, and the document that has them."""

    data: Any
    document: yaml_locations.YamlDocument | None = None
    findings: tuple[Finding, ...] = ()

    def placed(self, finding: Finding) -> Finding:
        """Return a finding about the table with its place in the file of the table."""
        if self.document is None or finding.path[:1] != (_KEY,) or finding.place:
            return finding
        place = self.document.place(self.document.written(finding.path))
        return dataclasses.replace(finding, place=place)


def find_table(data: Mapping[str, Any], folder: pathlib.Path | None) -> PriceTable:
    """Return the prices of a spec, read from their file if the spec names one.

    Args:
        data: the plain data of the spec.
        folder: the folder of the spec; None if it is not a file.
    """
    written = data.get(_KEY)
    if not isinstance(written, str):
        return PriceTable(written if _KEY in data else [])
    if folder is None:
        expected = "a list of prices (a file's name needs a spec that is a file)"
        return PriceTable([], findings=(Finding((_KEY,), expected, shown(written)),))
    path = folder / written
    try:
        document = yaml_locations.read(
            yaml_locations.read_text(path, "a file of prices"), source=str(path)
        )
    except SpecError as error:
        (problem, *_) = error.problems
        where = "" if problem.place == str(path) else f" ({problem.place})"
        expected, received = f"{problem.expected}{where}", f"{written!r}: {problem.received}"
        return PriceTable([], findings=(Finding((_KEY,), expected, received, problem.hint),))
    table = PriceTable(document.data.get(_KEY), document)
    wrong = [*document.findings, *(_unknown(key) for key in document.data if key != _KEY)]
    if not isinstance(table.data, list):
        received = shown(table.data) if _KEY in document.data else "nothing"
        wrong.append(Finding((_KEY,), "a list of prices", received))
        table = PriceTable([], document)
    return dataclasses.replace(table, findings=tuple(_in(document, one) for one in wrong))


def _unknown(key: Any) -> Finding:
    return Finding((key,), _KEY, f"the unknown key {key!r}", nearest(key, [_KEY]))


def _in(document: yaml_locations.YamlDocument, finding: Finding) -> Finding:
    place = finding.place or document.place(document.written(finding.path))
    return dataclasses.replace(finding, place=place)
