# Read by demo.sh, docs.sh, test.sh and versions.sh, in the root of the repository.

# Make an environment when it is missing, with the first Python from 3.11 on that really runs.
#     make_environment FOLDER
make_environment() {
    local candidate python="" folder=$1
    if "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
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
    echo "making $folder with $("$python" --version)"
    "$python" -m venv "$folder"
}

# Install tnvmc from the clone with the versions that are tested, when that has not been done.
#     install_tested FOLDER EXTRAS    where EXTRAS is "" or, for example, "[test]"
install_tested() {
    local folder=$1 extras=$2 stamp="$1/installed$2" versions=scripts/tested_versions.txt
    make_environment "$folder"
    if [ ! -e "$stamp" ] || [ setup.cfg -nt "$stamp" ] || [ "$versions" -nt "$stamp" ]; then
        echo "installing tnvmc$extras and what it needs into $folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
            --constraint "$versions" --editable ".$extras"
        touch "$stamp"
    fi
}
