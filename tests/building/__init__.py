"""Builders of the things that tests speak about: `build_NOUN(…)` returns a NOUN with usual values.

| module | builds |
| --- | --- |
| `hardware` | GPUs, nodes, and hardware as an arm uses it |
| `arms` | the arms that most tests use (constants) |
| `specs` | specs, as data, as YAML and checked |
| `trials` | identities of sweeps, finished trials and outcomes |
| `records` | sweeps as reports read them, from trials |
| `known_records` | sweeps whose true answer is known, by laws of the step time or of learning |
| `noisy_sweeps` | sweeps of known truth with the noise of real trials |
| `large_records` | sweeps as large, as rich or as hostile as reports must bear |
| `scheduling` | plans, ledgers and dispatchers |
| `sessions` | a session on invented nodes: everything between the plan and the journal |
| `stores` | homes with a store, and what opens a sweep in it |
| `jobs` | jobs of the example workloads |
| `tasks` | tasks by their names, and the Keras models that a trial trains |
| `recurrent_reference` | recurrent stacks, and what they compute, in float64 |
| `plain_keras` | a model as a user writes it without rnnsweep |
| `chance` | how often something of a known share may happen by chance |

A test passes what it is about as keyword arguments, and leaves the rest.
"""
