#!/usr/bin/env bash
# From nothing to a ground-state energy: installs into .venv, unless tnvmc is installed there, then
# runs a 6 x 6 Heisenberg model. Further arguments go to `tnvmc run`, e.g.
# --set optimizer.steps=20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
if [ ! -e .venv/bin/tnvmc ]; then
    install_tested .venv ""
fi
n=1
while [ -e "runs/demo-$n" ]; do n=$((n + 1)); done
exec .venv/bin/tnvmc run scripts/heisenberg_6x6.toml --out "runs/demo-$n" "$@"
