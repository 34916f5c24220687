#!/usr/bin/env bash
# The documentation as web pages in docs/_build/html; a broken reference is an error.  Further
# arguments go to sphinx-build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment "[docs]"
.venv/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build/html "$@"
echo "docs/_build/html/index.html"
