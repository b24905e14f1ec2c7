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
from orchestrator.report.formats import html
from orchestrator.report.parts import full_report
from orchestrator.report.render import render
from tests.building.large_records import (
    build_hostile_record,
    build_large_record,
    build_rich_record,
)


@given(st.text())
def test_json_in_a_script_has_no_markup_and_keeps_its_text(text: str) -> None:
    script = html.script_json({"texts": [text]})
    assert not set("<>&\u2028\u2029") & set(script)
    assert json.loads(script) == {"texts": [text]}


def test_a_page_allows_its_own_scripts_only_and_names_no_server() -> None:
    summary = summarise(build_hostile_record())
    page = render(summary, "html")
    assert page == render(summary, "html")
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


def test_the_page_has_the_parts_of_the_report_with_their_charts() -> None:
    summary = summarise(build_rich_record())
    sections, charts = full_report(summary).sections, charts_of(summary)
    parts = html.parts_of(sections, charts)
    assert [section for section, _ in parts[: len(sections)]] == [*sections]
    assert all(plot.section == section.part for section, plots in parts for plot in plots)
    assert {plot.key for _, plots in parts for plot in plots} == {chart.key for chart in charts}
    alone = html.parts_of(sections[:1], charts)
    assert sum(len(plots) for _, plots in alone) == len(charts)


def test_the_first_screen_has_the_facts_and_the_time_against_the_result() -> None:
    summary = summarise(build_large_record(8, 3))
    page = render(summary, "html")
    first, _, rest = page.partition('<section class="part"')
    (answer, *_) = full_report(summary).sections
    shown = re.findall(r"<dt>.*?</span>(.*?)</dt>", first)
    assert shown == [fact.label for fact in (*answer.facts, *answer.doubts)]
    assert 'id="plot-pareto-train-s-all-hardware"' in first
    assert 'id="plot-pareto-train-s-all-hardware"' not in rest.partition("<script")[0]
