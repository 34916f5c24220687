# Read by demo.sh and test.sh: makes .venv in the repository when it is missing, with the newest
# Python from 3.11 on that really runs, and installs tnvmc into it ($1: extras, such as "[test]").
make_environment() {
    local python candidate
    if [ ! -x .venv/bin/python ]; then
        for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
            if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
                python=$candidate
                break
            fi
        done
        if [ -z "${python:-}" ]; then
            echo "tnvmc needs Python 3.11 or later on the PATH; found: $(python3 --version 2>&1)" >&2
            return 1
        fi
        echo "making .venv with $("$python" --version)"
        "$python" -m venv .venv || { rm -rf .venv; return 1; }
    fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$1"
}
