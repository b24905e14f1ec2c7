"""A report as one HTML page that needs no network: text, tables, plots and trials.

Its style and scripts are files in this folder; `html` puts them together.
"""

from orchestrator.report.formats.html.html import to_html

__all__ = ["to_html"]
