"""Prints where reports still have the word of a verdict that `test_verdict_word` replaces."""

import json
import re
from dataclasses import replace

from orchestrator.report import verdicts
from orchestrator.report.compare.changes import compare_sides
from orchestrator.report.compare.document import changes_document
from orchestrator.report.compare.sides import Side
from orchestrator.report.formats.text import to_text
from orchestrator.report.render import render, summarise
from tests.orchestrator.report import golden

_NO_TEXT = r'<style>.*?</style>|<script>.*?</script>|class="[^"]*"'


def main() -> None:
    everything = golden.everything()
    before, after = golden.few_blocks(), replace(golden.few_blocks(), run_id="after")
    changes = compare_sides(Side("few#1", before), Side("few#2", after))
    texts = {
        "everything": render(everything, "text", full=True),
        "page": re.sub(_NO_TEXT, "", render(everything, "html"), flags=re.DOTALL),
        "crossing": render(summarise(golden.crossing()), "text", full=True),
        "few blocks": render(summarise(golden.few_blocks()), "text", full=True),
        "changes": to_text(changes_document(changes)),
    }
    observed = {
        "place": verdicts.__file__,
        "with the new word": [name for name, text in texts.items() if "undecided" in text],
        "with the old word": [name for name, text in texts.items() if "inconclusive" in text],
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
