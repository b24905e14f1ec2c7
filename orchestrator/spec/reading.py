"""YAML to a checked SweepSpec; the errors of a file are reported together, with places.

Errors of the notation come alone. Errors of single values come with errors of other names and
values that do not depend on them; values that do not fit together are reported once each is valid
by itself.
"""

import copy
import itertools
import pathlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.core.shipped_sweeps import shipped_sweeps
from orchestrator.sampling import UserClassError
from orchestrator.spec import checks, chosen_kinds, sections, yaml_locations
from orchestrator.spec.errors import Path, ProblemAtPath, SpecError, from_pydantic, shown_value
from orchestrator.spec.fields import Strict
from orchestrator.spec.space import Choices, Objective, Range, Search
from orchestrator.spec.sweep_spec import SweepSpec
from workloads import registry

_MOST_REMOVALS = 8
"""So often at most, values that need a removed one are removed from a spec with errors."""

_MODELS: Mapping[Path, type[BaseModel]] = {
    (): SweepSpec,
    ("search",): Search,
    **{("search", "sampler", name): kind for name, kind in chosen_kinds.SAMPLER_MODELS.items()},
    **{("search", "pruner", name): kind for name, kind in chosen_kinds.PRUNER_MODELS.items()},
    ("search", "space", "*", "choices"): Choices,
    ("search", "space", "*", "range"): Range,
    ("search", "objectives", "*"): Objective,
    ("arms",): sections.Arms,
    ("arms", "hardware", "*"): sections.HardwareEntry,
    ("arms", "variants", "*"): sections.VariantEntry,
    ("limits",): sections.Limits,
    ("prices", "*"): sections.Price,
    ("measure",): sections.MeasureSpec,
    ("blocks",): sections.BlocksSpec,
    ("disturbed",): sections.DisturbedSpec,
    ("margins",): sections.MarginsSpec,
    ("published", "*"): sections.Published,
}


def load_spec(
    path: pathlib.Path, overrides: Sequence[str] = (), *, import_classes: bool = False
) -> SweepSpec:
    """Read and check a spec file, YAML in UTF-8; raise `SpecError` with all problems.

    `overrides` (`dotted.key=YAML`) are set over the values of the file and checked with them. With
    `import_classes`, a sampler and a pruner of the user's are imported and made, too.
    """
    text = yaml_locations.read_spec_text(path, "a spec file", shipped_sweeps())
    return parse_spec(
        text,
        source=str(path),
        overrides=overrides,
        folder=path.parent,
        import_classes=import_classes,
    )


def parse_spec(
    text: str,
    *,
    source: str,
    overrides: Sequence[str] = (),
    folder: pathlib.Path | None = None,
    import_classes: bool = False,
    has_lines: bool = True,
) -> SweepSpec:
    """Check a spec that is given as text; raise `SpecError` with all problems.

    `source` names it in messages, with lines if it is a text of the user's. Files that it names are
    looked up in `folder`. See `load_spec` for the rest.
    """
    document = yaml_locations.parse_yaml(
        text,
        source=source,
        overrides=overrides,
        short_forms=sections.SHORT_FORMS,
        has_lines=has_lines,
    )
    try:
        spec = SweepSpec.model_validate(_with_price_file(document, folder))
    except ValidationError as error:
        built_in = {workload.name: workload.settings_model for workload in registry.BUILT_IN}
        settings = built_in.get(str(document.data.get("workload")))
        models = {**_MODELS, ("settings",): settings} if settings else _MODELS
        findings = from_pydantic(error, models)
        raise document.refusal([*findings, *_others(document.data, findings)]) from None
    findings = checks.inconsistencies(spec)
    if import_classes and not findings:
        findings = unusable_classes(spec)
    if findings:
        raise document.refusal([*findings, *_others(document.data, findings)])
    return spec


def _others(data: Mapping[str, Any], findings: Sequence[ProblemAtPath]) -> Sequence[ProblemAtPath]:
    """Return what else is wrong in a spec with these findings, without consequences of them."""
    removed = {_written(data, finding.path, set()) for finding in findings}
    for _ in range(_MOST_REMOVALS):
        if () in removed:
            return []
        try:
            # A spec needs a name, on which nothing else depends.
            spec = SweepSpec.model_validate({"name": "any", **_without(data, removed)})
        except ValidationError as error:  # something needs what was removed: it is removed, too
            paths = [_original(finding.path, removed) for finding in from_pydantic(error)]
            removed |= {_written(data, path, removed) for path in paths}
            continue
        others = [
            replace(finding, path=_original(finding.path, removed))
            for finding in checks.independent_findings(spec, removed)
        ]
        # What is wrong in several listed configs is reported at the first one.
        reported = {_in_any_config(finding) for finding in findings}
        return [other for other in others if _in_any_config(other) not in reported]
    return []


def _in_any_config(finding: ProblemAtPath) -> ProblemAtPath:
    """Return a finding without the number of the listed config in which it is."""
    if finding.path[:2] == ("search", "configs"):
        return replace(finding, path=("search", "configs", *finding.path[3:]))
    return finding


def _written(data: Any, path: Path, removed: Collection[Path]) -> Path:
    """Return the path of a value in data, or else of the innermost one around it that remains."""
    value, length = data, 0
    for part in path:
        is_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if not is_list and not (isinstance(value, dict) and part in value):
            break
        value = value[part]
        length += 1
    while length and path[:length] in removed:
        length -= 1
    return path[:length]


def _without(data: Mapping[str, Any], removed: Collection[Path]) -> Mapping[str, Any]:
    """Return a copy of data without the values at these paths, which all exist."""
    rest = copy.deepcopy(data)
    # From the end, so that indices of lists stay, and from within.
    for path in sorted(removed, key=lambda p: [(isinstance(q, str), q) for q in p], reverse=True):
        parent: Any = rest
        for part in path[:-1]:
            parent = parent[part]
        del parent[path[-1]]
    return rest


def _original(path: Path, removed: Collection[Path]) -> Path:
    """Return the path in whole data of a value in data `_without` some."""
    found: Path = ()
    for part in path:
        place = part
        if isinstance(part, int):
            gone = {p[-1] for p in removed if p[:-1] == found}
            remaining = (index for index in itertools.count() if index not in gone)
            place = next(itertools.islice(remaining, part, None))
        found = (*found, place)
    return found


def refuse_file(
    path: pathlib.Path, overrides: Sequence[str], findings: Sequence[ProblemAtPath]
) -> SpecError:
    """Return the error with problems of a spec file, and their places in it."""
    text = yaml_locations.read_spec_text(path, "a spec file", shipped_sweeps())
    document = yaml_locations.parse_yaml(
        text, source=str(path), overrides=overrides, short_forms=sections.SHORT_FORMS
    )
    return document.refusal(findings)


def refuse_object(source: str, spec: SweepSpec, findings: Sequence[ProblemAtPath]) -> SpecError:
    """Return the error with problems of a spec that has no file; `source` names it."""
    return yaml_locations.YamlDocument(source, spec.model_dump(mode="json"), {}).refusal(findings)


def expect_usable(spec: SweepSpec, source: str) -> None:
    """Make the checks of `parse_spec` on a spec that Python code made, its imports included."""
    if findings := checks.inconsistencies(spec) or unusable_classes(spec):
        raise refuse_object(source, spec, findings)


def unusable_classes(spec: SweepSpec) -> list[ProblemAtPath]:
    """Import and make a sampler and a pruner of the user's; return why they cannot be used."""
    findings = list[ProblemAtPath]()
    for key, kind in (("sampler", spec.search.sampler), ("pruner", spec.search.pruner)):
        try:
            if kind is not None:
                kind.expect_usable()
        except UserClassError as error:
            path: Path = ("search", key, error.option or "name")
            findings.append(ProblemAtPath(path, error.expected, error.received, error.hint))
    return findings


class _PriceFile(Strict):
    prices: sections.Prices


def _with_price_file(
    document: yaml_locations.YamlDocument, folder: pathlib.Path | None
) -> Mapping[str, Any]:
    """Return the data of a spec with the prices of the file that it names, if it names one."""
    name = document.data.get("prices")
    if not isinstance(name, str):
        return document.data
    if folder is None:
        expected = "a list of prices (a file's name needs a spec that is a file)"
        raise document.refusal([ProblemAtPath(("prices",), expected, shown_value(name))])
    path = folder / name
    kind = f"a file of prices, which {document.place(('prices',)).text} names"
    table = yaml_locations.parse_yaml(yaml_locations.read_spec_text(path, kind), source=str(path))
    _checked_prices(table, table.data)
    return {**document.data, "prices": table.data["prices"]}


def read_prices(overrides: Sequence[str], folder: pathlib.Path) -> tuple[sections.Price, ...]:
    """Return the prices that a report is to count with, from `prices=…` as in a spec.

    A file of prices is looked up in `folder`. Raise `SpecError` for wrong prices, and for any other
    key: a report cannot change what was measured.
    """
    document = yaml_locations.parse_yaml(
        "{}", source="a report", overrides=overrides, example="prices=prices.yaml"
    )
    others = [key for key in document.data if key != "prices"]
    if others:
        start = "rnnsweep run SPEC " + shlex.join(
            word for override in overrides for word in ("--set", override)
        )
        hint = f"a report reads what was measured; the sweep gets other values by a start: {start}"
        expected = "prices, the one key that a report can set"
        raise document.refusal(
            ProblemAtPath((key,), expected, repr(key), hint if key == others[0] else "")
            for key in others
        )
    return _checked_prices(document, _with_price_file(document, folder))


def _checked_prices(
    document: yaml_locations.YamlDocument, data: Mapping[str, Any]
) -> tuple[sections.Price, ...]:
    """Return the prices of data with this key alone; raise the errors at their places."""
    try:
        return _PriceFile.model_validate(data).prices
    except ValidationError as error:
        raise document.refusal(
            from_pydantic(error, {(): _PriceFile, ("prices", "*"): sections.Price})
        ) from None
