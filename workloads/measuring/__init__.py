"""Measurement of a training: warm-up, timed epochs, slices, clocks and roofline."""
