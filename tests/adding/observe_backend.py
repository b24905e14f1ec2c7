"""Prints where the backend acme appears, which `test_backend` adds."""

import json

import workloads
from orchestrator.cli import reference
from orchestrator.spec import spec_schema
from workloads.backends.registry import backends, parse_known_implementation
from workloads.eligibility import ineligibility_reason
from workloads.layer_traits import LayerTraits


def reason(implementation: str, *, is_installed: bool) -> str | None:
    """Return why an implementation cannot run on a CPU, with Acme's package or without it."""
    return ineligibility_reason(
        parse_known_implementation(implementation),
        LayerTraits(),
        "cpu",
        has_package=lambda _: is_installed,
    )


def main() -> None:
    observed = {
        "place": workloads.__file__,
        "backends": list(backends()),
        "parsed": str(parse_known_implementation("acme/portable")),
        "reason": reason("acme/portable+xla", is_installed=True),
        "not installed": reason("acme/portable", is_installed=False),
        "in schema": "acme/portable" in spec_schema.spec_schema_text(),
        "pages": [page for page, text in reference.generated_parts().items() if "acme" in text],
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
