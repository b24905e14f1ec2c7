"""Prints where the option --cheapest of `plan` appears, which `test_command` adds."""

import json

import click

from orchestrator.cli import plan as module
from orchestrator.cli import reference
from orchestrator.cli.main import main as rnnsweep


def main() -> None:
    plan = rnnsweep.commands["plan"]
    context = plan.make_context("plan", ["mine.yaml", "--cheapest"])
    parts = reference.generated_parts()
    observed = {
        "place": module.__file__,
        "pages": [page for page, text in parts.items() if "--cheapest" in text],
        "value": context.params["cheapest"],
        "help": " ".join(plan.get_help(click.Context(plan)).split()),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
