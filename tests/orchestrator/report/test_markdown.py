"""The report as Markdown, read back by a Markdown parser that lets HTML through."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from orchestrator.core.arms import Arm
from orchestrator.report.document import Column, Document, Section, Table, make_table, visible
from orchestrator.report.formats.markdown import to_markdown
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, paired, sweep, trial

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = "<script>alert(1)</script> | `code` **bold** [a](javascript:b) ![i](j)\n# h\n\n- x ~~y~~"


def inlines(markdown: str) -> list[Token]:
    return [token for token in PARSER.parse(markdown) if token.type == "inline"]


def plain(token: Token) -> str:
    """The text of a token, all of whose children must be text."""
    kinds = {child.type for child in token.children or []}
    assert kinds <= {"text", "text_special"}, (kinds, token.content)
    return "".join(child.content for child in token.children or [])


def test_the_verdict_comes_first() -> None:
    lines = render(summarise(paired(8)), "markdown").splitlines()
    assert lines[0] == "# Sweep quickstart: image_rows"
    assert lines[2].startswith("- tensorflow/portable+xla is 1.250 × (1.250–1.250) as fast as")


def test_tables_are_tables() -> None:
    markdown = render(summarise(paired(8)), "markdown")
    assert "| arm | speed-up (95 %) | blocks | verdict |" in markdown
    assert "| --- | ---: | ---: | --- |" in markdown
    assert "| arm | Δ val_accuracy (95 %) | accuracy |" in markdown
    tokens = [token.type for token in PARSER.parse(markdown)]
    assert tokens.count("table_open") == 10
    assert "html_block" not in tokens


@given(st.text(min_size=1))
@example(HOSTILE)
@example("- item")
@example("1. item")
@example("+ item")
@example("===")
@example("__init__ _a_ b_c_d")
@example("\\| x \\")
@example("&amp; &#60;b&#62;")
@example("<https://a.b>")
def test_any_text_stands_as_itself_in_headings_bullets_cells_and_notes(raw: str) -> None:
    section = Section("first", (("faster", raw),))
    other = Section(raw, tables=(Table((raw, "b"), ((raw, "c"),)),), paragraphs=(raw,))
    markdown = to_markdown(Document(f"Sweep {raw}", (section, other)))
    shown = [plain(token).strip() for token in inlines(markdown)]
    wanted = visible(raw).strip()
    heading = f"Sweep {wanted}".strip()
    if wanted:
        assert shown == [heading, wanted, wanted, wanted, "b", wanted, "c", wanted]
    else:  # white space alone leaves an empty heading, an empty bullet and no paragraph
        assert [text for text in shown if text] == [heading, "b", "c"]


def test_hostile_names_add_no_markup_to_a_report() -> None:
    arm = Arm(HOSTILE, CPU)
    trials = [trial(arm, 0, config={HOSTILE: HOSTILE}), trial(PORTABLE, 0)]
    record = sweep(trials, (PORTABLE, arm), name=HOSTILE, workload=HOSTILE, run_id=HOSTILE)
    tokens = PARSER.parse(render(summarise(record), "markdown"))
    kinds = {token.type for token in tokens} | {
        child.type for token in tokens for child in token.children or []
    }
    assert not {kind for kind in kinds if kind.startswith(("html", "code", "link", "image", "s_"))}
    rows = [token for token in tokens if token.type == "tr_open"]
    clean = sweep([trial(Arm("x", CPU), 0), trial(PORTABLE, 0)], (PORTABLE, Arm("x", CPU)))
    harmless = PARSER.parse(render(summarise(clean), "markdown"))
    assert len(rows) == len([token for token in harmless if token.type == "tr_open"])


def test_a_table_of_columns_aligns_data_and_leaves_out_what_no_row_has() -> None:
    columns: list[Column[tuple[str, float | None]]] = [
        Column("arm", lambda item: item[0]),
        Column("step", lambda item: item[1], unit="ms"),
        Column("share", lambda item: item[1], show=lambda value: f"{value:.0%}"),
        Column("energy", lambda _: None, optional=True),
        Column("note", lambda _: None),
    ]
    made = make_table(columns, [("a", 0.25), ("b", None)])
    assert made.headers == ("arm", "step (ms)", "share", "note")
    assert made.rows == (("a", "0.25", "25%", "–"), ("b", "–", "–", "–"))
    assert made.numeric == {1, 2}
    assert make_table(columns, []).rows == ()
