#!/usr/bin/env bash
echo "$SLURMD_NODENAME: rnnsweep $*" >> "$CALLS"
trap 'echo "$SLURMD_NODENAME: the sweep stops" >> "$CALLS"; exit 3' TERM
sleep "$SWEEP_S" & wait
exit 1
