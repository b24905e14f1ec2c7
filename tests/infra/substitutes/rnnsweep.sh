#!/usr/bin/env bash
trap 'echo "$SLURMD_NODENAME: the sweep stops" >> "$CALLS"; exit 3' TERM
echo "$SLURMD_NODENAME: rnnsweep $*" >> "$CALLS"
sleep "$SWEEP_S" & wait
exit 1
