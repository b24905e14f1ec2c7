"""The trainer process: its channel, commands and requests."""
