"""Output formats of a report: text, Markdown, JSON, HTML and image files."""
