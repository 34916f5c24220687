#!/usr/bin/env bash
# A run on several machines of a cluster with Slurm, in as many jobs as it takes:
#     sbatch scripts/slurm_mpi.sh FILE.toml FOLDER
# Two minutes before its time is over the run is told to stop. It writes a checkpoint, and the same
# job goes back into the queue to go on.
#SBATCH --job-name=tnvmc
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=16
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=3G
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail
file=$1 folder=$2
# Walkers are shared by the ranks: give 64 for each of the 64 ranks here, sampler.n_walkers = 4096 or some.
# Some clusters want `srun --mpi=pmix` or `--mpi=pmi2`: see `srun --mpi=list`.
# module load openmpi; source /path/to/.venv/bin/activate

if [ -e "$folder/config.toml" ]; then
    task=(--resume "$folder")
else
    task=("$file" --out "$folder")
fi
export OMP_NUM_THREADS=1 # ranks share the cores, not their BLAS
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun does not take it over by itself
srun tnvmc run "${task[@]}" --set "run.threads=$SLURM_CPUS_PER_TASK"
status=$?
if [ "$status" -eq 143 ]; then # stopped by the signal, with a checkpoint
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
