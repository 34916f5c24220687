#!/usr/bin/env bash
# On a machine with a GPU: the core tests on CuPy, the GPU tests, and the benchmark, which writes
# benchmarks/results/gpu.json; in less than nine minutes.  Takes the Python of .venv, or $PYTHON.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3
results=${1:-benchmarks/results}
mkdir -p "$results"
status=0
timeout 120 "$python" -m pytest -q -m gpu tests/test_gpu.py -p no:cacheprovider || status=$?
timeout 200 "$python" -m pytest -q --backend cupy -p no:cacheprovider --maxfail 30 \
    tests/backend tests/contraction tests/ansatz tests/sampling tests/optimize || status=$?
timeout 220 "$python" benchmarks/gpu.py --json "$results/gpu.json" | tee "$results/gpu.txt" || status=$?
exit "$status"
