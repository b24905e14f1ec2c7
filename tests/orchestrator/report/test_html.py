"""The HTML page without a browser, and its charts, which are image files too."""

import base64
import hashlib
import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.summary import summarise
from orchestrator.report.charts import charts_of
from orchestrator.report.document import PARTS
from orchestrator.report.formats import html
from orchestrator.report.formats.html import to_html
from orchestrator.report.sections.document import document
from tests.building.large_records import (
    build_hostile_record,
    build_large_record,
    build_rich_record,
)

SVG = "{http://www.w3.org/2000/svg}"


@given(st.text())
def test_json_in_a_script_has_no_markup_and_keeps_its_text(text: str) -> None:
    script = html.script_json({"texts": [text]})
    assert not set("<>&\u2028\u2029") & set(script)
    assert json.loads(script) == {"texts": [text]}


def test_a_page_allows_its_own_scripts_only_and_names_no_server() -> None:
    summary = summarise(build_hostile_record())
    page = html.to_html(summary)
    assert page == html.to_html(summary)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    directives = policy[1].replace("&#39;", "'")
    assert directives.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in directives
    assert "base-uri 'none'; form-action 'none'" in directives
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert re.findall(r"sha256-([^']*)'", directives) == digests
    assert len(digests) == 2
    assert not re.search("jsdelivr|unpkg|cdnjs|vega-lite/v[0-9.]+json", page)


def test_the_script_of_vega_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Mock(return_value="vega()")
    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    for place, made in ((tmp_path / "new", 1), (tmp_path / "new", 1), (Path("/dev/null/x"), 2)):
        monkeypatch.setenv("RNNSWEEP_CACHE", str(place))
        assert html.vega.__wrapped__() == "vega()"
        assert bundle.call_count == made


def test_every_section_and_chart_answers_a_question() -> None:
    summary = summarise(build_rich_record())
    sections, charts = document(summary).sections, charts_of(summary)
    questions = html.questions_of(sections, charts)
    assert [id for id, *_ in questions] == [*PARTS]
    parts = [part for *_, parts in questions for part in parts]
    own = [section for section, _ in parts]
    assert own == list(sections)
    assert {p.key for _, plots in parts for p in plots} == {chart.key for chart in charts}
    (trust,) = (
        contents for id, _, contents in html.questions_of(sections[-1:], charts) if id == "trust"
    )
    assert sum(len(plots) for _, plots in trust) == len(charts)


def test_the_time_against_the_result_is_on_the_first_screen() -> None:
    page = to_html(summarise(build_large_record(8, 3)))
    first, _, rest = page.partition('<section class="question"')
    assert 'id="plot-pareto-train-s-all-hardware"' in first
    assert 'id="plot-pareto-train-s-all-hardware"' not in rest.partition("<script")[0]
