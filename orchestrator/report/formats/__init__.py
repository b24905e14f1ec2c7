"""Output formats of a report: text, Markdown, JSON, CSV, HTML and image files."""
