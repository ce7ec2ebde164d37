#!/usr/bin/env bash
#SBATCH --job-name=census
#SBATCH --array=1-4
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#
# A census of a large corpus by the tasks of a Slurm array. Each task reads its part of the corpus, every N-th
# document, and leaves its sums with its table; the tables add up. Tasks share nothing but the folder of results.
#
#     sbatch examples/slurm_array.sh demo corpus.txt census 4      # four tasks, four parts
#     attnprobe merge census/part*.csv -o census/whole.csv        # when all are done
#
# A killed task continues where it was when Slurm starts it again (--resume). If merge says that parts are
# missing, run these again, such as 3 and 17 to 20 of 100, with the same number of parts:
#
#     sbatch --array=3,17-20 examples/slurm_array.sh demo corpus.txt census 100
#
# Without Slurm, run it once for each part: SLURM_ARRAY_TASK_ID=1 bash examples/slurm_array.sh demo ...
set -euo pipefail

# The number of parts is no number of Slurm's: SLURM_ARRAY_TASK_COUNT is another when only some run again.
model=$1 corpus=$2 folder=$3 parts=${4:-4}
part=${SLURM_ARRAY_TASK_ID:?run this in a Slurm array, or set SLURM_ARRAY_TASK_ID}

mkdir -p "$folder"
attnprobe census "$model" -d "$corpus" --part "$part/$parts" --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --resume "$folder/part$part.state" -o "$folder/part$part.csv" --overwrite --no-progress
