"""Write the golden reports again."""

from tests.orchestrator.report.golden import FOLDER, reports

for name, make in reports().items():
    (FOLDER / name).write_text(make(), encoding="utf-8")
