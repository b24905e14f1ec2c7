"""The number format that a user's file sets for all layers. Imports no framework."""

from dataclasses import dataclass

from workloads.implementations import AUTO, DTYPE_POLICIES, Implementation


@dataclass(frozen=True, slots=True)
class OwnNumberFormat:
    """What the import of a file sets in Keras: a dtype policy, a `floatx`, or both.

    `place` is the line. The format belongs to the model as it is written: the kernel `auto` keeps
    it.
    """

    policy: str | None
    floatx: str | None
    place: str

    def refusal_reason(self, implementation: Implementation) -> str | None:
        """Return why an implementation cannot run the model; None if it computes in the format."""
        precision = implementation.precision
        if implementation.kernel == AUTO and precision == "float32":
            return None
        name, asked = self.policy or self.floatx, DTYPE_POLICIES.get(precision, "float32")
        if name == asked:
            return None
        return (
            f"{self.place} sets {name} for all layers, and this arm computes in {asked}: remove"
            f" that line, or use {implementation.backend}/{AUTO}, which keeps it"
        )
