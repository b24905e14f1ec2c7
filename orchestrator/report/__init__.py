"""Reports: pure functions from the records of a sweep to tables, texts and files.

`records` is what they are made of, `rendering` makes them. Importing the package costs nothing:
the mathematics comes with `rendering`.
"""
