"""The last section: the words of a report, and how to read its other sections."""

from collections.abc import Iterable, Iterator

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import PARTS, Section
from orchestrator.report.verdicts import INCONCLUSIVE, WORDS
from orchestrator.report.wording import step_noun


def reading_section(summary: ReportSummary, sections: Iterable[Section]) -> Section:
    """Explain the words of a report, and then the figures of each of its sections."""
    explained = (
        f"{section.title}: {' '.join(section.explanations)}"
        for section in sections
        if section.explanations
    )
    texts = (*_words(summary), *explained)
    return Section(PARTS["reading"], paragraphs=texts, key="reading", part="reading")


def _words(summary: ReportSummary) -> Iterator[str]:
    in_variant = ", in one variant" if summary.models else ""
    yield (
        f"An arm is one implementation on one hardware class{in_variant}. A block is one config, "
        "which every arm runs; its number is the config no. in tables. A round is one repeat of a "
        "block. Arms are compared within blocks, so that their configs do not matter."
    )
    yield (
        f"A verdict is {WORDS['faster']}, {WORDS['slower']}, {WORDS['same']} (within the margin) "
        f"or {INCONCLUSIVE}. It is provisional "
        "if other work disturbed too many trials."
    )
    if step_noun(summary) == "prediction":
        yield (
            "Arms were timed in short slices that took turns. What is timed is the model's own "
            "compiled predict function on whole batches that are already on the device. Nothing is "
            "trained, so there is no accuracy."
        )
    elif any(row.arm.measure != "full" for row in summary.arms):
        yield (
            "Arms on hardware [timing] were timed in short slices that took turns. They have times "
            "per step and per sample, and no accuracy; accuracies come from whole trainings only."
        )
