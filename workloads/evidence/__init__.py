"""Evidence of which kernel ran, read from what a backend was given to run."""

from workloads.evidence.kernel_evidence import Proof, Stack, prove, prove_passes

__all__ = ["Proof", "Stack", "prove", "prove_passes"]
