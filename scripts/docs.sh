#!/usr/bin/env bash
# The documentation as web pages in docs/_build/html; a broken reference is an error. Sphinx is
# installed into .venv-dev, and .venv stays as it is. Further arguments go to sphinx-build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
install_tested .venv-dev "[docs]"
echo "building the pages: a minute"
.venv-dev/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build/html "$@"
echo "the first page is docs/_build/html/index.html"
