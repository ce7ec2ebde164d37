#!/usr/bin/env bash
# A census that several processes share, on one machine or many. They read different batches, add up their
# sums, and the first one writes the table, which is that of a single process.
#
#     bash examples/torchrun.sh demo corpus.txt heads.csv      # two processes
#     PROCESSES=8 bash examples/torchrun.sh my-checkpoint corpus.jsonl heads.csv
#
# On several machines, add --nnodes, --node-rank and --master-addr to torchrun, as for training.
set -euo pipefail

model=$1 corpus=$2 table=$3
torchrun --nproc-per-node "${PROCESSES:-2}" -m attnprobe census "$model" -d "$corpus" \
    --threads 1 --resume "$table.state" -o "$table"
