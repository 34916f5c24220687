#!/usr/bin/env bash
# Linters, types and tests, in an environment of their own, .venv-dev:
#     bash scripts/test.sh               the default tests, on all cores (four at most)
#     bash scripts/test.sh --fast        the tests of the core alone: a minute
#     bash scripts/test.sh --whole       whole runs, commands and conformance suites, seconds each
#     bash scripts/test.sh --all         the default tests and those of --whole
#     bash scripts/test.sh ARGUMENTS...  pytest with these, in one process, e.g. -m slow -s
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
install_tested .venv-dev "[test]"
.venv-dev/bin/ruff check .
.venv-dev/bin/ruff format --check .
.venv-dev/bin/mypy
# Modules stay together: tests of one share what they compile and what they run.
side_by_side=(-n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder)
# What a sample goes through: no networks, no wrappers, no starts.
core=(tests/test_levels.py tests/test_structure.py tests/test_oracles.py tests/backend tests/lattice
    tests/operators tests/contraction tests/ansatz tests/sampling tests/estimate tests/optimize)
beside=(--ignore tests/ansatz/neural --ignore tests/ansatz/wrappers --ignore tests/ansatz/initial
    --ignore tests/ansatz/test_protocol.py --ignore tests/optimize/test_against_netket.py)
case "${1-}" in
    "") set -- "${side_by_side[@]}" ;;
    --whole) set -- "${side_by_side[@]}" -m "whole and not slow and not gpu" "${@:2}" ;;
    --all) set -- "${side_by_side[@]}" -m "not slow and not gpu" "${@:2}" ;;
    --fast) set -- "${side_by_side[@]}" "${beside[@]}" "${core[@]}" "${@:2}" ;;
esac
case " $* " in
    *" -n "*) export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 ;;
esac
exec .venv-dev/bin/python -m pytest "$@"
