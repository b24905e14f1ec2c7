"""A report as one HTML page that needs no network: text, tables, plots and trials.

Its style and scripts are files beside these; `html` puts all of it together.
"""

from orchestrator.report.formats.html.html import to_html

__all__ = ["to_html"]
