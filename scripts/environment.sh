# Read by demo.sh and test.sh, in the root of the repository.
# make_environment EXTRAS: makes .venv when it is missing, with the first Python from 3.11 on that
# really runs, and installs tnvmc with EXTRAS ("" or "[test]") when that has not been done.
make_environment() {
    local candidate python="" stamp=".venv/installed$1"
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
            if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
                python=$candidate
                break
            fi
        done
        if [ -z "$python" ]; then
            echo "tnvmc needs Python 3.11 or later on the PATH" >&2
            return 1
        fi
        echo "making .venv with $("$python" --version)"
        "$python" -m venv .venv
    fi
    if [ ! -e "$stamp" ] || [ setup.cfg -nt "$stamp" ]; then
        echo "installing tnvmc$1 and what it needs into .venv"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$1"
        touch "$stamp"
    fi
}
