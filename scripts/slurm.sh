#!/usr/bin/env bash
# A run on a cluster with Slurm, in as many jobs as it takes:
#     sbatch scripts/slurm.sh FILE.toml FOLDER
# Two minutes before its time is over the run is told to stop. It writes a checkpoint, and the same
# job goes back into the queue to go on.
#SBATCH --job-name=tnvmc
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail
file=$1 folder=$2
# source /path/to/.venv/bin/activate

if [ -e "$folder/config.toml" ]; then
    task=(--resume "$folder")
else
    task=("$file" --out "$folder")
fi
export OMP_NUM_THREADS=1 # workers share the cores, not their BLAS
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun does not take it over by itself
srun tnvmc run "${task[@]}" --set "run.threads=$SLURM_CPUS_PER_TASK"
status=$?
if [ "$status" -eq 143 ]; then # stopped by the signal, with a checkpoint
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
