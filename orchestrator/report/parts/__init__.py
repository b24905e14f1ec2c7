"""The six parts of a report: each a function that makes a section of tables of a summary."""
