"""Sections of the report, one module for each."""
