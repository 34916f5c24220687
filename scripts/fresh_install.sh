#!/usr/bin/env bash
# What the README says, in its order, in a fresh clone: install, run, documentation, a test, the
# demo, notebooks. After each of them the commands still work, and nothing is compiled again.
#     bash scripts/fresh_install.sh FOLDER    clones this repository, with its changes, into FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
clone=$(realpath -m "${1:?where to}")
git clone --quiet . "$clone"
git diff --binary HEAD | git -C "$clone" apply --allow-empty
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
cd "$clone"
# Newer versions than the tested ones are the matter of versions.sh.
export PIP_CONSTRAINT=$clone/scripts/tested_versions.txt PIP_DISABLE_PIP_VERSION_CHECK=1
few=(--set optimizer.steps=2 --set sampler.n_samples=128 --set measure.n_samples=256)
place='import os, tnvmc; print(os.path.dirname(tnvmc.__file__))'

works() { # AFTER: the commands outside of the clone, with kernels that are there already
    local output
    output=$(cd "$outside" && tnvmc measure "$clone/runs/first" --n-samples 128 --no-pairs 2>&1) ||
        { echo "after $1: $output" >&2; return 1; }
    if grep -q "compiling" <<<"$output"; then
        echo "after $1 kernels are compiled again" >&2
        return 1
    fi
    echo "works after $1 ($SECONDS s)"
}

notebook() { # FOLDER, HOME: a notebook in a folder imports tnvmc from a home, and compiles nothing
    python - "$1/first.ipynb" "$2" <<'END'
import json, sys
path, home = sys.argv[1:]
code = f"""
import os, tnvmc
assert os.path.realpath(tnvmc.__file__).startswith(os.path.realpath({home!r})), tnvmc.__file__
from tnvmc import PEPS, SRC, VMC, Sampler, heisenberg, square
hamiltonian = heisenberg(square(4, 4))
peps = PEPS(hamiltonian.lattice, D=2, scheme=SRC(4))
print(VMC(hamiltonian, peps, Sampler(n_walkers=16, n_samples=64, threads=1)).run(2))
from tnvmc.backend.host import strips
assert strips.sample.stats.cache_hits and not strips.sample.stats.cache_misses, strips.sample.stats
"""
cell = {"cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": [],
        "source": code}
notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
open(path, "w").write(json.dumps(notebook))
END
    (cd "$1" && jupyter execute --kernel_name=python3 first.ipynb)
    rm "$1/first.ipynb"
}

python3 -m venv .venv
source .venv/bin/activate
pip install --quiet '.[notebook]'
tnvmc run scripts/heisenberg_4x4.toml --out runs/first "${few[@]}"
tnvmc report runs/first
site=$(cd "$outside" && python -c "$place")
case $site in "$clone"/.venv/*) ;; *) echo "tnvmc is in $site" >&2; exit 1 ;; esac
works "a run"
bash scripts/docs.sh
works "docs.sh"
bash scripts/test.sh tests/test_import.py
works "test.sh"
bash scripts/demo.sh "${few[@]}" --set lattice.shape=[4,4] --set ansatz.D=2 >/dev/null
works "demo.sh"
notebook "$clone" "$clone/tnvmc"
notebook "$outside" "$site"
works "notebooks"
[ "$(cd "$outside" && python -c "$place")" = "$site" ]
pip install --quiet --no-deps --editable .
works "an editable installation"
pip install --quiet --no-deps .
works "an installation again"
pip uninstall --quiet --yes tnvmc
if [ -e "$site" ]; then
    echo "left behind by an uninstallation: $(find "$site")" >&2
    exit 1
fi
pip install --quiet --no-deps .
works "all of it"
