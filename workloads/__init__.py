"""Real trainings of recurrent networks, measured: what runs inside a trainer process.

Nothing here imports `orchestrator`; a trial runs by hand with `python -m workloads`.
"""
