#!/usr/bin/env bash
#SBATCH --job-name=census
#SBATCH --array=0-3
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#
# A census of a large corpus by the tasks of a Slurm array. Each task reads its part of the corpus and leaves
# its sums on disk; the tables add up.
#
#     sbatch examples/slurm_array.sh demo corpus.txt census        # four tasks
#     attnprobe merge census/part*.json -o census/whole.csv        # when all are done
#
# A task that is killed goes on where it was when Slurm starts it again (--resume). The corpus has a document
# on each line. Without Slurm, run it once for each task: SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=4 bash ...
set -euo pipefail

model=$1 corpus=$2 folder=$3
task=${SLURM_ARRAY_TASK_ID:?run this in a Slurm array, or set SLURM_ARRAY_TASK_ID}
tasks=${SLURM_ARRAY_TASK_COUNT:-4}

mkdir -p "$folder"
part=$folder/part$task
# Every task takes each of its lines in turn, so that all parts are alike.
awk -v tasks="$tasks" -v task="$task" 'NR % tasks == task' "$corpus" > "$part.txt"

attnprobe census "$model" -d "$part.txt" --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --resume "$part.state" -o "$part.csv" --overwrite --no-progress
