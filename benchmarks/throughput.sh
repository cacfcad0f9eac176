#!/usr/bin/env bash
# Our engine beside lm-eval's own `hf` on five settings: one table each (docs/throughput.md).
#
#     benchmarks/throughput.sh [options of `ladder-eval bench throughput` ...]
#
# The settings need the data of MMLU, HellaSwag with its training split, ARC-Easy, GSM8K and
# WikiText-2: in the cache, or given with --data-dir. On two cores most of the time goes into hf, of
# which the longest settings get two rounds. Options given here come last and win: --rounds 5 is for
# patient ones, --rounds 1 only sees that everything works.
# LADDER_EVAL is the command, by default ladder-eval; in a checkout, LADDER_EVAL="python cli.py".
set -uo pipefail

read -ra bench <<< "${LADDER_EVAL:-ladder-eval} bench throughput"
failed=0
setting() { # the options of one setting, then those of all
  "${bench[@]}" "$@" || failed=1
}

# MMLU 5-shot, ten subjects by the alphabet, the first 20 documents of each.
setting --tasks mmlu --suite paper-adapted --parts 10 --limit 20 --fewshot stock \
  --hf-documents 32 --rounds 2 "$@"
# HellaSwag 10-shot, whose examples are drawn for each document by itself.
setting --tasks hellaswag --suite paper-adapted --limit 12 --hf-documents 8 --rounds 3 "$@"
# ARC-Easy 0-shot.
setting --tasks arc_easy --limit 100 --hf-documents 100 --rounds 3 "$@"
# GSM8K 8-shot with chains of thought, which are written.
setting --tasks gsm8k_cot --limit 32 --hf-documents 16 --rounds 2 "$@"
# WikiText-2, whole documents.
setting --tasks wikitext --limit 5 --hf-documents 2 --rounds 3 "$@"
exit "$failed"
