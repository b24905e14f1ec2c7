"""The formats of a report: width, escaping, and the versioned object with its schema."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.trial import ImpossibleArm
from orchestrator.report.document import Document, Fact, Section, Table, visible
from orchestrator.report.formats import FORMATS
from orchestrator.report.formats.fragment import to_fragment
from orchestrator.report.formats.text import to_markdown, to_text
from orchestrator.report.names import PartBuilder, arm_names
from orchestrator.report.parts.answer import answer_part, arms_table, short_report
from orchestrator.report.render import render, summarise, to_short_markdown
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial
from tests.orchestrator.report.golden import everything
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
    lines = render(summary, "text", width=width, parts=["answer"]).splitlines()
    table = arms_table(summary, arm_names(summary))
    first, second = table.headers[:2]
    parts = [line for line in lines if line.startswith(f" {first} ") and second in line]
    assert len(parts) > 1 and table.keys == 2
    for head in table.headers:
        assert any(f" {head}" in line for line in parts), head


@pytest.mark.parametrize("width", [80, 100])
def test_a_table_that_is_cut_has_its_first_columns_and_a_line_for_each_row(width: int) -> None:
    table = Table(
        ("arm", "ms/step", *(f"measure {i}" for i in range(9))),
        tuple((arm.short_name, "10.0", *"123456789") for arm in (PORTABLE, XLA)),
        frozenset(range(1, 11)),
        is_cut=True,
    )
    lines = to_text(Document("", (Section("", tables=(table,)),)), width).splitlines()
    head, *rows = filter(None, lines)
    assert head.split()[:2] == ["arm", "ms/step"] and "measure 8" not in head
    assert [row.split()[0] for row in rows] == [PORTABLE.short_name, XLA.short_name]
    assert max(map(len, lines)) <= width


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
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}, token.content
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
    section = Section("first", (Fact("fastest", raw),))
    other = Section(raw, tables=(Table((raw, "b"), ((raw, "c"),)),), notes=(raw,))
    markdown = to_markdown(Document(f"Sweep {raw}", (section, other)))
    tokens = [token for token in PARSER.parse(markdown) if token.type == "inline"]
    shown = [plain(token).strip() for token in tokens]
    wanted = visible(raw).strip()
    heading, fact = f"Sweep {wanted}".strip(), f"fastest: {wanted}".strip()
    if wanted:
        assert shown == [heading, fact, wanted, wanted, "b", wanted, "c", wanted]
    else:  # white space alone leaves an empty heading, an empty cell and no paragraph
        assert [text for text in shown if text] == [heading, fact, "b", "c"]


# every format of every kind of sweep


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", RECORDS)
def test_every_format_renders(name: str, format: str) -> None:
    summary = summarise(RECORDS[name])
    report = render(summary, format, full=True)
    assert report.endswith("\n")
    assert not set(report) & set("\x1b\x07\u202e\ud800")
    if format == "text":
        short = render(summary, format)
        assert len(short) < len(report) and not set(short) & set("\x1b\x07\u202e\ud800")
        assert all(len(line) <= 100 for line in report.splitlines() if line.isascii())
        assert not re.search(r"\bnan\b", report)
    if format == "markdown":
        for limit in (600, 2000):
            short = to_short_markdown(summary, limit)
            assert len(short) < limit and "<script>" not in short
    if format in ("markdown", "html"):
        assert "<script>alert" not in report


@pytest.mark.parametrize("name", ["large", "hostile", "all failed"])
def test_a_notebook_shows_facts_table_and_notes_without_markup_of_the_sweep(name: str) -> None:
    document = short_report(summarise(RECORDS[name]))
    (section,) = document.sections
    fragment = to_fragment(document)
    assert fragment.count("<li>") == len(section.facts) + len(section.doubts)
    assert fragment.count("<tr>") == sum(1 + len(table.rows) for table in section.tables)
    assert fragment.count("<p>") == len(section.notes)
    assert not re.search(r"<(script|img|a|svg)", fragment)


def test_a_part_without_figures_says_so_if_it_is_chosen() -> None:
    summary = summarise(build_paired_record(8))
    builders: dict[str, PartBuilder] = {"answer": answer_part, "sizes": lambda *_: None}
    full = render(summary, "markdown", builders=builders)
    chosen = render(summary, "markdown", parts=["sizes"], builders=builders)
    assert "no figures" not in full and "no figures" in chosen
    assert "fastest" in full and "fastest" not in chosen


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="text, markdown, json, html"):
        render(summarise(build_record([])), "latex")
