#!/usr/bin/env bash
# On a machine with a GPU: the GPU tests, the core tests on CuPy, and the benchmarks, which
# write gpu.json, gpu.txt and precision_gpu.json; in less than nine minutes.
#     bash scripts/gpu_check.sh [FOLDER FOR RESULTS]
# Takes the Python of .venv, with pip install -e '.[gpu,test]', or $PYTHON.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null || python=python3
results=${1:-benchmarks/results}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$results"
status=0
timeout 140 "$python" -m pytest -q -m gpu tests/test_gpu.py -p no:cacheprovider || status=$?
# Two ranks on one card; needs pip install -e '.[mpi]' mpich.
timeout 100 "$python" -m pytest -q -m gpu tests/ranks -p no:cacheprovider || status=$?
timeout 140 "$python" -m pytest -q --backend cupy -p no:cacheprovider --tb=short \
    tests/backend tests/contraction tests/ansatz tests/sampling tests/optimize tests/estimate \
    || status=$?
timeout 200 "$python" benchmarks/gpu.py --json "$results/gpu.json" | tee "$results/gpu.txt" || status=$?
timeout 55 "$python" benchmarks/precision.py --device gpu --rows 8,4,8 --rounds 2 \
    --json "$results/precision_gpu.json" || status=$?
exit "$status"
