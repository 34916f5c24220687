#!/usr/bin/env bash
# From nothing to a ground-state energy: installs into .venv, then runs a 6 x 6 Heisenberg model.
# Further arguments go to `tnvmc run`, e.g. --set optimizer.steps=20
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment ""
mkdir -p runs
out=$(mktemp -d runs/demo-XXXXXX)
exec .venv/bin/tnvmc run scripts/heisenberg_6x6.toml --out "$out" "$@"
