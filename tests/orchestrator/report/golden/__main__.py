"""Write the golden reports again."""

from tests.orchestrator.report.golden import FOLDER, reports

for name, content in reports():
    (FOLDER / name).write_text(content, encoding="utf-8")
