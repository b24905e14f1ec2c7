"""Evidence of the kernel that ran, read from the backend and never from the request."""

from workloads.backends.feeding import Batches
from workloads.backends.kernel_evidence import EagerStep, Proof
from workloads.models.recurrent_parts import recurrent_parts
from workloads.models.training_run import StartState, TrainingRun


def prove(run: TrainingRun) -> Proof:
    """Identify the kernel of a run's timed steps after its warm-up; leave the state as it was."""
    # If all tracings agree, their kernel is the kernel; without a tracing, one step shows it.
    witness = run.model.witness
    framework, records = witness.framework, witness.tracing_records
    parts = recurrent_parts(run.model)
    with witness.paused():
        if not witness.eager_steps:
            proofs = {framework.prove_traced(record, run.model, parts) for record in records}
        elif records:
            return Proof("mixed", "some steps were traced, and some ran eagerly")
        else:
            proofs = {_prove_eager_step(run)}
    if not proofs:
        return Proof("unknown", f"no {witness.timed_work} step was traced")
    if len({proof.ran for proof in proofs}) > 1:
        texts = sorted(f"{proof.ran} ({proof.evidence})" for proof in proofs)
        return Proof("mixed", f"the traced steps differ: {'; '.join(texts)}")
    return min(proofs, key=lambda proof: proof.evidence)


def _prove_eager_step(run: TrainingRun) -> Proof:
    framework, batch = run.model.witness.framework, Batches(run.train, run.batch_size)[0]
    parts = recurrent_parts(run.model)
    if run.model.witness.timed_work == "predict":
        predict, inputs = framework.make_predict(run.model), framework.place(batch[0])
        step = EagerStep(run.model, batch, lambda: predict([inputs]), "predict")
        return framework.prove_eager(step, parts)
    start = StartState(run.model)
    try:
        return framework.prove_eager(EagerStep(run.model, batch, run.fit_first_batch), parts)
    finally:
        start.restore()
