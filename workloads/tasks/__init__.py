"""The built-in workloads, a folder each, and the interface that they and a user's own share.

`task` has the interface. `NAME/settings.py` is what the orchestrator sees of a workload, and
imports no framework; `NAME/task.py` loads the data and builds the model, in a trainer process.
"""
