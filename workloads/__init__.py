"""Code that runs inside a trainer process: real trainings of recurrent networks, measured.

Nothing here imports `orchestrator`. `python -m workloads` runs a trial by hand.
"""
