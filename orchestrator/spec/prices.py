"""Prices of hardware: `prices:` of a spec, as a table or as the name of a file that has one.

    prices: prices.yaml            # in the folder of the spec; the file has one key, prices:
    prices:
      - {hardware: "NVIDIA T4*", usd_per_hour: 0.526, source: …, date: 2026-11-01}
      - {hardware: "*", usd_per_kwh: 0.31, source: our bill, date: 2026-10-01}

The first entry that matches the hardware of a trial counts, as in `arms.hardware`. Without prices
nothing has a cost.
"""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ValidationError, model_validator

from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import Finding, from_pydantic, shown
from orchestrator.spec.fields import Count, Positive, Strict, Text, as_tuple, refusal


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise refusal("the day of the price, such as 2026-11-21", shown(text)) from error


class Price(Strict):
    """The price of one kind of hardware, with its source and date.

    `usd_per_hour` is the price of the machine: of all of it for a CPU arm, and for a GPU arm
    divided by the machine's `gpus`, of which a trial has one. `usd_per_kwh` is the price of the
    energy that was measured. Both add up.
    """

    hardware: Text
    usd_per_hour: Positive | None = None
    gpus: Count = 1
    usd_per_kwh: Positive | None = None
    source: Text
    date: Annotated[str, AfterValidator(_date)]

    @model_validator(mode="after")
    def _expect_price(self) -> Price:
        if self.usd_per_hour is None and self.usd_per_kwh is None:
            raise refusal("usd_per_hour, usd_per_kwh, or both", "neither")
        return self


Prices: TypeAlias = Annotated[tuple[Price, ...], BeforeValidator(as_tuple)]


class _PriceFile(Strict):
    prices: Prices


def with_price_file(
    document: yaml_locations.YamlDocument, folder: pathlib.Path | None
) -> Mapping[str, Any]:
    """Return the data of a spec with the prices of the file that it names, if it names one.

    Args:
        document: the spec.
        folder: the folder of the spec; None if it is not a file.

    Raises:
        SpecError: the file cannot be read or is wrong.
    """
    name = document.data.get("prices")
    if not isinstance(name, str):
        return document.data
    if folder is None:
        expected = "a list of prices (a file's name needs a spec that is a file)"
        raise document.refusal([Finding(("prices",), expected, shown(name))])
    path = folder / name
    kind = f"a file of prices, which {document.place(('prices',)).text} names"
    table = yaml_locations.read(yaml_locations.read_text(path, kind), source=str(path))
    try:
        _PriceFile.model_validate(table.data)
    except ValidationError as error:
        raise table.refusal(
            from_pydantic(error, {(): _PriceFile, ("prices", "*"): Price})
        ) from None
    return {**document.data, "prices": table.data["prices"]}
