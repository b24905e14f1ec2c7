"""Prints where the sampler nsga3 appears, which `test_built_in_sampler` adds."""

import json

from orchestrator.cli import reference
from orchestrator.sampling import samplers
from orchestrator.sampling.kinds import BlockSeed
from orchestrator.spec import spec_schema
from orchestrator.spec.sweep_spec import SweepSpec
from tests.building.specs import build_spec


def main() -> None:
    spec = build_spec(sampler="nsga3", objectives={"val_accuracy": "maximize"})
    sampler = spec.search.sampler
    observed = {
        "place": samplers.__file__,
        "made": type(sampler.make(BlockSeed(0, 1, 1))).__name__,
        "survives its dump": SweepSpec.model_validate(spec.model_dump(mode="json")) == spec,
        "learns": sampler.learns,
        "in schema": "nsga3" in spec_schema.spec_schema_text(),
        "pages": [page for page, text in reference.generated_parts().items() if "nsga3" in text],
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
