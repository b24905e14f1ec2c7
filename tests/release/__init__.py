"""Packages of a release: built reproducibly, checked, and installed in clean environments."""
