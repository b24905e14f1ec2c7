"""Reports: pure functions from the records of a sweep to tables, texts and files.

Importing this package costs nothing; `render` imports the mathematics.
"""
