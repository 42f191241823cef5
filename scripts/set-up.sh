#!/bin/sh
# Makes .venv in the checkout fit to run the workbench (`run`) or to work on it too (`dev`), with exactly the versions
# in lock/. When nothing has changed since the last time it returns at once and asks no package index.
set -eu
cd "$(dirname "$0")/.."
here=$(pwd)
want=${1:?usage: scripts/set-up.sh run|dev}
venv=.venv
python=$venv/bin/python

say() { printf '%s\n' "$*" >&2; }

# What an installed set depends on. The folder is part of it: a virtual environment does not survive being moved.
state_of() {
    case $1 in
    venv) printf '%s\n' "$here" ;;
    run) { printf '%s\n' "$here"; cat pyproject.toml workbench/__init__.py lock/run.txt; } | cksum ;;
    dev) { printf '%s\n' "$here"; cat lock/run.txt lock/dev.txt; } | cksum ;;
    esac
}

is_done() { [ -x "$python" ] && [ "$(cat "$venv/.done-$1" 2>/dev/null)" = "$(state_of "$1")" ]; }
mark_done() { state_of "$1" >"$venv/.done-$1"; }

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return
        fi
    done
    say "No usable Python was found: ${PYTHON:-python3} must be 3.11 or newer and have venv (on Debian and Ubuntu:"
    say "apt install python3-venv). Another one is chosen with: make PYTHON=/path/to/python3.12 demo"
    exit 1
}

make_venv() {
    found=$(find_python)
    say "Making $venv with $("$found" --version) ..."
    rm -rf "$venv"
    "$found" -m venv "$venv"
    # uv installs the rest about seven times faster than pip. Where it has no wheel, pip does it.
    "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        -r lock/installer.txt || say "uv can't be had here: pip will do."
    mark_done venv
}

# install ARGUMENT...: what `pip install` takes.
install() {
    if [ -x "$venv/bin/uv" ]; then
        "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$python" "$@" && return
        say "uv could not install: trying pip ..."
    fi
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

if ! is_done venv; then make_venv; fi
if ! is_done run; then
    say "Installing what the workbench needs ..."
    install --require-hashes --only-binary :all: -r lock/run.txt
    install --no-deps --no-build-isolation --editable .
    # A start must not wait for the compiler, also where Python is told to write no bytecode by itself.
    "$python" -m compileall -q workbench
    mark_done run
fi
if [ "$want" = dev ] && ! is_done dev; then
    say "Installing the test and lint tools ..."
    install --require-hashes --only-binary :all: -r lock/run.txt -r lock/dev.txt
    mark_done dev
fi
