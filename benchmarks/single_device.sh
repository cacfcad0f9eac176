#!/usr/bin/env bash
# What one device says about decoding.
#
# 1. Its bandwidth utilisation in decoding, of the 1b, 3b and 8b shapes: the bytes of weights and
#    cache that a step reads, by the step's time, beside what a plain copy reads and writes.
#    It stands in each table's last notes ("No-comm reads ...").
# 2. One rank's share of the 70b shape at tp_size 8, emulated: its messages are delays with half the
#    mean block time as latency, and 80 layers are extrapolated from 8 (docs/speed.md).
#
#     benchmarks/single_device.sh [--dry-run] [options of `ladder-eval bench` ...]
#
# --dry-run is the same on a CPU with few layers, few tokens and three rounds, in some minutes and
# 8 GiB: that everything works, and no figure worth keeping. LADDER_EVAL is the command, by default
# ladder-eval; in a checkout, LADDER_EVAL="python cli.py".
set -euo pipefail

read -ra bench <<< "${LADDER_EVAL:-ladder-eval} bench"
layers=() emulated_layers=8 prompt_len=1024 output_len=129 batch_sizes=1,8,32 options=()
if [ "${1:-}" = --dry-run ]; then
  shift
  layers=(--layers 2) emulated_layers=4 prompt_len=16 output_len=5 batch_sizes=1
  options=(--device cpu --dtype bfloat16 --rounds 3)
fi
options+=(--batch-size "$batch_sizes" --prompt-len "$prompt_len" --output-len "$output_len" "$@")

for size in 1b 3b 8b; do
  "${bench[@]}" --model "standard_$size" --residual standard --tp 1 "${layers[@]}" "${options[@]}"
done
"${bench[@]}" --emulate --model standard_70b --tp 8 --layers "$emulated_layers" \
  --residual ladder,ladder-40,parallel,desync-2x "${options[@]}"
