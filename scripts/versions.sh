#!/usr/bin/env bash
# Whether tnvmc works with other versions of what it needs than those of tested_versions.txt:
#     bash scripts/versions.sh newest    the newest ones: which they are, and what broke
#     bash scripts/versions.sh lowest    the lowest ones that setup.cfg allows
# Runs the default tests and builds the documentation, in an environment that is made anew,
# .venv-newest or .venv-lowest. Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
which=${1:?newest or lowest}
folder=.venv-$which
limits=$(mktemp)
trap 'rm -f "$limits"' EXIT
case $which in
    newest) ;;
    # "name>=1.2,<2; marker" becomes "name==1.2; marker"
    lowest)
        sed -nE 's/^ +([A-Za-z0-9_.-]+)>=([0-9.]+)[^;]*(;.*)?$/\1==\2\3/p' setup.cfg >"$limits"
        ;;
    *) echo "newest or lowest, not $which" >&2; exit 2 ;;
esac
rm -rf "$folder"
make_environment "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$limits" --editable '.[test,docs]'
installed=$folder/versions.txt
{ grep '^#' scripts/tested_versions.txt; "$folder/bin/python" -m pip freeze --exclude-editable; } \
    >"$installed"
echo "installed in other versions than the tested ones:"
comm -13 <(tr 'A-Z_' 'a-z-' <scripts/tested_versions.txt | sort) \
    <(tr 'A-Z_' 'a-z-' <"$installed" | sort)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
broken=()
"$folder/bin/python" -m pytest -n logical --maxprocesses 4 --dist loadfile \
    --no-loadscope-reorder "${@:2}" ||
    broken+=(tests)
"$folder/bin/python" -m sphinx -q -W --keep-going -b html docs "$folder/docs" ||
    broken+=(documentation)
if [ ${#broken[@]} -gt 0 ]; then
    echo "broken with the $which versions: ${broken[*]}" >&2
    exit 1
fi
echo "tests and documentation work with the $which versions, which $installed lists"
