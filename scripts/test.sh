#!/usr/bin/env bash
# Linter, types, and the default tests, in .venv. Further arguments go to pytest:
# bash scripts/test.sh -m slow
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment "[test]"
.venv/bin/ruff check --line-length 100 .
.venv/bin/ruff format --line-length 100 --check .
.venv/bin/mypy
exec .venv/bin/python -m pytest "$@"
