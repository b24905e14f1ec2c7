"""YAML to a checked SweepSpec; the errors of a file are reported together, with locations.

Errors of the notation come alone, then all keys and values that are wrong by themselves, then all
that do not fit the workload or each other.
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.core.shipped_sweeps import shipped_sweeps
from orchestrator.sampling import UserClassError
from orchestrator.spec import checks, chosen_kinds, sections, yaml_locations
from orchestrator.spec.fields import Strict
from orchestrator.spec.space import Choices, Objective, Range, Search
from orchestrator.spec.spec_errors import Path, ProblemAtPath, SpecError, from_pydantic, stated
from orchestrator.spec.sweep_spec import SweepSpec
from workloads import registry

MODELS: Mapping[Path, type[BaseModel]] = {
    (): SweepSpec,
    ("search",): Search,
    ("search", "configs", "auto"): sections.AutoConfigs,
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
    ("disturbed",): sections.DisturbedSpec,
    ("margins",): sections.MarginsSpec,
    ("published", "*"): sections.Published,
}
"""The sections of a spec by their paths; where there are several kinds, the last part is one."""


def load_spec(
    path: pathlib.Path, overrides: Sequence[str] = (), *, import_classes: bool = False
) -> SweepSpec:
    """Read and check a spec file, YAML in UTF-8; raise `SpecError` with all problems.

    `overrides` (`dotted.key=YAML`) are set over the values of the file and checked with them. With
    `import_classes`, a sampler and a pruner of the user's are imported and made, too.
    """
    text = yaml_locations.read_spec_text(path, shipped_sweeps())
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
        models = {**MODELS, ("settings",): settings} if settings else MODELS
        raise document.refusal(from_pydantic(error, models)) from None
    findings = checks.inconsistencies(spec)
    if import_classes and not findings:
        findings = unusable_classes(spec)
    if findings:
        raise document.refusal(findings)
    return spec


def refuse_file(
    path: pathlib.Path, overrides: Sequence[str], findings: Sequence[ProblemAtPath]
) -> SpecError:
    """Return the error with problems of a spec file, and their locations in it."""
    text = yaml_locations.read_spec_text(path, shipped_sweeps())
    document = yaml_locations.parse_yaml(
        text, source=str(path), overrides=overrides, short_forms=sections.SHORT_FORMS
    )
    return document.refusal(findings)


def refuse_object(source: str, spec: SweepSpec, findings: Sequence[ProblemAtPath]) -> SpecError:
    """Return the error with problems of a spec that has no file; `source` names it."""
    return yaml_locations.YamlDocument(source, spec.model_dump(mode="json"), {}).refusal(findings)


def unusable_classes(spec: SweepSpec) -> list[ProblemAtPath]:
    """Import and make a sampler and a pruner of the user's; return why they cannot be used."""
    findings = list[ProblemAtPath]()
    for key, kind in (("sampler", spec.search.sampler), ("pruner", spec.search.pruner)):
        try:
            if kind is not None:
                kind.expect_usable()
        except UserClassError as error:
            path: Path = ("search", key, error.option or "name")
            findings.append(stated(path, error.reason, error.hint))
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
        text = "only a spec in a file can name a file of prices: list the prices instead"
        raise document.refusal([stated(("prices",), text)])
    path = folder / name
    text = yaml_locations.read_spec_text(path, named_in=document.location(("prices",)).text)
    table = yaml_locations.parse_yaml(text, source=str(path))
    try:
        _PriceFile.model_validate(table.data)
    except ValidationError as error:
        raise table.refusal(
            from_pydantic(error, {(): _PriceFile, ("prices", "*"): sections.Price})
        ) from None
    return {**document.data, "prices": table.data["prices"]}
