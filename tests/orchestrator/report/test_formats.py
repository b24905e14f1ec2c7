"""The formats of a report: width, escaping, and the versioned object with its schema."""

import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.trial import ImpossibleArm
from orchestrator.report.document import Bullet, Document, Kind, Section, Table, visible
from orchestrator.report.formats.text import to_markdown
from orchestrator.report.render import (
    MOST_LINES,
    ReportFormat,
    render,
    summarise,
    to_short_markdown,
)
from orchestrator.report.sections.fastest import arms_table
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial, change_trial
from tests.orchestrator.report.golden import everything, threads
from tests.orchestrator.report.kinds_of_sweeps import RECORDS

# text

LONG = Arm("tensorflow/" + "+".join(f"option{i}" for i in range(20)), CPU)
LONG_CONFIG = {f"param_number_{i}": 0.1234 * i for i in range(12)}
LONG_METRICS = {"step_ms": 1e4 / 7, "train_s": 1e6 / 7, "samples_per_s": 1e9 / 3}
FIELDS: dict[str, Any] = {"config": LONG_CONFIG, "metrics": LONG_METRICS}
WIDE = build_record(
    [
        *(build_trial(block, arm, **FIELDS) for block in range(7) for arm in (PORTABLE, LONG)),
        build_trial(7, LONG, status="failed", failure="error: " + "x" * 500),
    ],
    (PORTABLE, LONG),
    name="名前" * 60,
    run_id="r" * 150,
    workload="package." * 20,
    objectives={"step_ms": "minimize"},
    impossible=(ImpossibleArm(RequestedArm(LONG.implementation, str(CPU)), "because " * 40),),
    environment={f"package{i}": "1.2.3" for i in range(100)},
)


@pytest.mark.parametrize("width", [60, 100])
def test_text_fits_the_width_and_is_not_cut_off(width: int) -> None:
    report = render(summarise(WIDE), "text", width=width, full=True)
    squeezed = re.sub(r"\s", "", report)
    assert max(map(cell_len, report.splitlines())) <= width
    assert "…" not in report
    assert "package991.2.3" in squeezed
    assert report.count("x") >= 500
    assert report.count("because") == 40
    assert squeezed.count("名") >= 60
    assert all(f"param_number_{i}" in squeezed for i in range(12))


@pytest.mark.parametrize("width", [80, 100])
def test_heads_of_tables_do_not_break_and_each_part_names_its_rows(width: int) -> None:
    summary = everything()
    lines = render(summary, "text", width=width, parts=["fastest"]).splitlines()
    table = arms_table(summary)
    parts = [line for line in lines if line.startswith(" arm ") and "hardware" in line]
    assert len(parts) > 1 and table.headers[:2] == ("arm", "hardware")
    for head in table.headers:
        assert any(f" {head}" in line for line in parts), head


def test_a_short_report_leaves_out_columns_before_answers() -> None:
    text = render(summarise(threads()), "text", width=80)
    assert "• Variant: gru " in text and "• Threads: 2 threads " in text
    assert "• Best val_accuracy" in text and "\nTo use gru: torch/fused" in text
    assert text.count("\n") <= MOST_LINES * 100 / 80
    text = render(everything(), "text", width=80)
    assert "More columns: rnnsweep report quickstart --section fastest" in text
    assert "• On AMD EPYC (2 CPUs), " in text and "Missing or doubtful" in text
    assert "--section accuracy --target 0.85" in text and "12 of 12" in text, "it is asked for"
    assert text.count("\n") <= MOST_LINES * 100 / 80 + 10


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("missing", [0, 9])
def test_a_short_report_answers_each_factor_on_a_busy_machine_too(width: int, missing: int) -> None:
    record = threads()
    busy = [change_trial(t, disturbance={"other_processes": 68.0}) for t in record.trials]
    record = replace(record, trials=tuple(busy), expected_trials=len(busy) + missing)
    text = render(summarise(record), "text", width=width)
    assert text.count("\n") <= MOST_LINES * 100 / width
    assert "• Variant: " in text and "• Threads: 2 threads " in text and "1.87 ×" in text
    assert text.index("• Variant: gru ") < text.index("1.87 ×"), "its accuracy is decided"
    assert "• Best val_accuracy: " in text and "\nMissing or doubtful\n" in text


def test_text_depends_on_no_variable_and_has_terminal_codes_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarise(build_paired_record(8))
    plain = render(summary, "text")
    for name in ("FORCE_COLOR", "COLUMNS", "NO_COLOR", "JUPYTER_COLUMNS"):
        monkeypatch.setenv(name, "37")
    assert render(summary, "text") == plain
    coloured = render(summary, "text", colour=True)
    assert "\x1b[1;32m" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


# Markdown, read back by a parser that lets HTML through

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def plain(token: Token) -> str:
    kinds = {child.type for child in token.children or []}
    assert kinds <= {"text", "text_special"}, (kinds, token.content)
    return "".join(child.content for child in token.children or [])


@given(st.text(min_size=1))
@example("<script>1</script> | `code` **bold** [a](javascript:b) ![i](j)\n# h\n\n- x ~~y~~")
@example("- item")
@example("1. item")
@example("===")
@example("__init__ _a_ b_c_d")
@example("\\| x \\")
@example("&amp; &#60;b&#62;")
@example("<https://a.b>")
def test_markdown_shows_any_text_as_it_is(raw: str) -> None:
    section = Section("first", (Bullet(Kind.FASTER, raw),))
    other = Section(raw, tables=(Table((raw, "b"), ((raw, "c"),)),), paragraphs=(raw,))
    markdown = to_markdown(Document(f"Sweep {raw}", (section, other)))
    tokens = [token for token in PARSER.parse(markdown) if token.type == "inline"]
    shown = [plain(token).strip() for token in tokens]
    wanted = visible(raw).strip()
    heading = f"Sweep {wanted}".strip()
    if wanted:
        assert shown == [heading, wanted, wanted, wanted, "b", wanted, "c", wanted]
    else:  # white space alone leaves an empty heading, an empty bullet and no paragraph
        assert [text for text in shown if text] == [heading, "b", "c"]


# every format of every kind of sweep


@pytest.mark.parametrize("format", get_args(ReportFormat))
@pytest.mark.parametrize("name", RECORDS)
def test_every_format_renders(name: str, format: ReportFormat) -> None:
    summary = summarise(RECORDS[name])
    report = render(summary, format, full=format == "text")
    assert report.endswith("\n")
    assert not set(report) & set("\x1b\x07\u202e\ud800")
    if format == "text":
        short = render(summary, format)
        assert short.count("\n") <= MOST_LINES and not set(short) & set("\x1b\x07\u202e\ud800")
        assert all(len(line) <= 100 for line in report.splitlines() if line.isascii())
        assert not re.search(r"\bnan\b", report.replace("others", ""))
    if format == "markdown":
        for limit in (600, 2000):
            short = to_short_markdown(summary, limit)
            assert len(short) <= limit and "<script>" not in short
    if format in ("markdown", "html"):
        assert "<script>alert" not in report
