"""The sweep: from a spec file to blocks of trials on Ray, a journal, MLflow runs and a report.

Nothing here imports a machine-learning framework: those live in trainer processes
(`python -m workloads`), one per backend and device.
"""

__version__ = "0.2.0.dev0"
