"""A section and a chart of the report: a module and an entry in a list each, in a copy."""

import ast
from pathlib import Path

from tests.adding.copied_project import CopiedProject, copy_project
from tests.documents import ROOT, blocks

EXAMPLE = blocks("python", ROOT / "docs" / "adding" / "report_section.md")[0][1]
IMPORTS = {
    "retries_section": "from orchestrator.report.document import Column, Section, make_table\n",
    "retry_bars": (
        "from orchestrator.report.charts.chart import"
        " ROW, ROW_HEIGHT, Chart, layer, row_names, short\n"
    ),
}
REPORT = "orchestrator/report"
CHART_IMPORT = "from orchestrator.report.charts import curves, phases, speedups, trade_offs"


def write_module(project: CopiedProject, file: str, function: str) -> None:
    """Write a module with one of the functions of the page's example."""
    (code,) = [
        ast.unparse(node)
        for node in ast.parse(EXAMPLE).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    (project.folder / REPORT / file).write_text(f"{IMPORTS[function]}\n\n{code}\n")


def test_a_section_and_a_chart_take_two_files_each(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    write_module(project, "sections/retries.py", "retries_section")
    sections = f"{REPORT}/sections/document.py"
    project.insert_after(sections, "    reading,", "    retries,\n")
    project.insert_after(
        sections,
        "SECTIONS: tuple[ReportSection, ...] = (",
        '    ReportSection("retries", "trust", retries.retries_section),\n',
    )
    write_module(project, "charts/retries.py", "retry_bars")
    charts = f"{REPORT}/charts/__init__.py"
    project.insert_after(
        charts,
        "CHARTS: tuple[ChartBuilder, ...] = (",
        "    retries.retry_bars,\n",
    )
    project.replace_line(charts, CHART_IMPORT, CHART_IMPORT.replace("phases", "phases, retries"))
    observed = project.observe("tests.adding.observe_section")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["section"] == "Retries"
    assert observed["chart"] == "retries"
    assert observed["in text"] is True
