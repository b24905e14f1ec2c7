"""The JSON Schema of a spec, with which editors complete and check it.

It is made from the models of this package, of the built-in workloads and of the backends. `make
docs` writes `spec.schema.json`. `rnnsweep init` writes the schema with the backends that are
installed there.
"""

import json
from pathlib import Path
from typing import Any

from orchestrator.spec.fields import Json
from orchestrator.spec.sweep_spec import SweepSpec
from workloads.backends.registry import all_options, backends
from workloads.implementations import KERNELS
from workloads.metrics import BY_NAME, COST_METRICS, OUTSIDE_OBJECTIVES
from workloads.registry import BUILT_IN, Workload
from workloads.tasks.own_model.settings import OwnModelSettings

SCHEMA_FILE = Path(__file__).with_name("spec.schema.json")

_ARMS: Json = {"properties": {"implementations": {"items": {"$ref": "#/$defs/Implementation"}}}}
"""The schema of `arms` where the implementations are known."""

_ABOUT = "A spec of rnnsweep, or a file of prices. Written by rnnsweep; do not edit it."


def spec_schema() -> Json:
    """Return the schema, of draft 7, which editors know best.

    The keys of a spec are at the top, its sections in `$defs`, the settings of the built-in
    workloads among them. Every property of a section has a description of one line.
    """
    top: Json = _plain(SweepSpec.model_json_schema())
    definitions: Json = top.pop("$defs")
    rules = [_rule(workload, definitions) for workload in BUILT_IN]
    rules.append(_rule_of_own_models(definitions))
    definitions["Implementation"] = _implementation()
    required = top.pop("required")
    one_of = [{"required": ["workload"]}, {"required": ["model"]}]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:rnnsweep:spec",
        **top,
        "title": "rnnsweep",
        "description": _ABOUT,
        "if": {"required": ["prices"], "maxProperties": 1},
        "else": {"required": required, "oneOf": one_of},
        "allOf": rules,
        "$defs": dict(sorted(definitions.items())),
    }


def _plain(part: Any) -> Any:
    """Drop titles and defaults of whole sections; write arrays and keys as draft 7 does."""
    if isinstance(part, list):
        return [_plain(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    names = {"prefixItems": "items", **({"minLength": "minItems"} if "items" in part else {})}
    return {
        names.get(key, key): _plain(value)
        for key, value in part.items()
        if not isinstance(value, {"title": str, "default": dict}.get(key, ()))
    } | ({"additionalProperties": False} if "patternProperties" in part else {})


def _rule(workload: Workload, definitions: Json) -> Json:
    """Return the rule for the settings, parameters, metrics and arms of a built-in workload."""
    model = workload.settings_model
    assert model is not None  # the built-in ones have settings
    settings = definitions[model.__name__] = _plain(model.model_json_schema())
    parameters = {
        name: {"description": setting["description"]}
        for name, setting in settings["properties"].items()
        if name not in workload.data_settings
    }
    metrics = {
        name: {"description": BY_NAME[name].description}
        for name in (*workload.metrics, *OUTSIDE_OBJECTIVES, *COST_METRICS)
    }
    search = {
        name: {"properties": keys, "additionalProperties": False}
        for name, keys in {"space": parameters, "objectives": metrics}.items()
    }
    return {
        "if": {"properties": {"workload": {"const": workload.name}}, "required": ["workload"]},
        "then": {
            "properties": {
                "settings": {"$ref": f"#/$defs/{model.__name__}"},
                "search": {"properties": search},
                "arms": _ARMS,
            }
        },
    }


def _rule_of_own_models(definitions: Json) -> Json:
    """Return the rule for a user's model: the settings that we read, and the implementations."""
    settings = definitions[OwnModelSettings.__name__] = _plain(OwnModelSettings.model_json_schema())
    parameters = {
        name: {"description": setting["description"]}
        for name, setting in settings["properties"].items()
    }
    return {
        "if": {"required": ["model"]},
        "then": {
            "properties": {
                "settings": {"$ref": f"#/$defs/{OwnModelSettings.__name__}"},
                "search": {"properties": {"space": {"properties": parameters}}},
                "arms": _ARMS,
            }
        },
    }


def _implementation() -> Json:
    """Return the schema of the implementations that the backends have."""
    plain = [f"{backend}/{kernel}" for backend in backends() for kernel in KERNELS]
    return {"anyOf": [{"enum": plain}, {"type": "string", "pattern": _implementation_pattern()}]}


def _implementation_pattern() -> str:
    kernels, options = "|".join(KERNELS), "|".join(all_options())
    return rf"^({'|'.join(backends())})/({kernels})(\+({options}))*$"


def spec_schema_text() -> str:
    """Return the text of the file."""
    return json.dumps(spec_schema(), indent=1, ensure_ascii=False) + "\n"
