"""Backends: one folder for each, with all that is particular to it.

`backend` is what everybody may read about one, `framework` what runs in a trainer process, and
`registry` finds all of them. `docs/adding.md` says how to add one.
"""
