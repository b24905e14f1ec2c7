"""The running sweep: blocks, sampler, session, recovery and the Tune loop."""
