"""Sentences that several sections share."""
