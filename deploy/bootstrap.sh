#!/bin/sh
# Makes .venv from the lock files; a second run with nothing changed is done at once.
# usage: deploy/bootstrap.sh [--tests]        WEIR_PYTHON names another Python
set -eu
cd "$(dirname "$0")/.."
lock=requirements.lock
[ "${1:-}" = --tests ] && lock=requirements-test.lock
venv=$PWD/.venv
stamp=$venv/installed-$lock
log=$PWD/.venv-install.log

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

wanted() { # what an up-to-date environment was made from; moved environments do not work
    { echo "$venv"; cat requirements.lock "$lock" pyproject.toml; } | cksum
}

runs() { # executed, because a name in PATH may be a shim that only says "not found"
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

makes_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

candidates() {
    [ -n "${WEIR_PYTHON:-}" ] && { echo "$WEIR_PYTHON"; return; }
    # A distribution's own first: it is built with profiles, which makes the gateway a quarter faster.
    for version in 3.11 3.12 3.13; do
        for found in /usr/bin/python$version /usr/local/bin/python$version; do
            [ -x "$found" ] && echo "$found"
        done
        command -v "python$version" || true
        for found in "${HOME:-/nonexistent}"/.pyenv/versions/$version*/bin/python; do
            [ -x "$found" ] && echo "$found"
        done
    done
    command -v python3 || true
}

find_python() {
    without_venv=
    for candidate in $(candidates); do
        runs "$candidate" || continue
        makes_venv "$candidate" && { echo "$candidate"; return; }
        without_venv=$candidate
    done
    [ -n "$without_venv" ] || [ -z "${WEIR_PYTHON:-}" ] ||
        fail "WEIR_PYTHON=$WEIR_PYTHON is no Python 3.11, 3.12 or 3.13"
    [ -n "$without_venv" ] ||
        fail "no Python 3.11, 3.12 or 3.13 found: install one (apt-get install python3 python3-venv), or name it in WEIR_PYTHON"
    package=$("$without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $package"
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "$package"; } >"$log" 2>&1 || {
            tail -n 5 "$log" >&2
            fail "apt-get could not install $package: install it and run this again"
        }
        makes_venv "$without_venv" && { echo "$without_venv"; return; }
    fi
    fail "$without_venv cannot make virtual environments: apt-get install $package (as root), then run this again"
}

explain() { # the lines of pip that matter; it also warns about every place it does not look at
    grep -E '^(ERROR|error)' "$log" | tail -n 3 >&2 || true
    if grep -q 'No space left' "$log"; then
        say "the disk is full: free 1 GB and run this again"
    elif grep -qE 'connection broken|Connection|timed out|Could not fetch' "$log"; then
        say "the package index cannot be reached: check the network, or name a mirror in PIP_INDEX_URL"
    elif grep -q 'No matching distribution' "$log"; then
        say "no wheel for this Python ($("$venv/bin/python" -V 2>&1), $(uname -m)): name another in WEIR_PYTHON"
    fi
    fail "pip did not finish; all it said is in $log"
}

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@" >>"$log" 2>&1 || explain
}

install() {
    python=$(find_python)
    : >"$log"
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making .venv with $python"
        "$python" -m venv --clear "$venv" >>"$log" 2>&1 || { tail -n 5 "$log" >&2; fail "could not make .venv"; }
    fi
    rm -f "$venv"/installed-*
    say "installing $(grep -c '==' "$lock") packages"
    pip install --only-binary :all: -r "$lock"
    pip install --no-deps -e .
    [ "$lock" = requirements.lock ] || wanted_of requirements.lock
    wanted >"$stamp"
    rm -f "$log"
    say "done"
}

wanted_of() { (lock=$1; wanted >"$venv/installed-$1"); } # the longer lock holds the shorter one

current() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted)" ] && "$venv/bin/python" -c '' 2>/dev/null; }

current && exit 0
exec 9>.venv.lock # `make up` and `make test` at once: one installs, the other waits
! command -v flock >/dev/null || flock 9
current || install
