"""Tests of samplers and pruners: the contract of each kind, and classes of users."""
