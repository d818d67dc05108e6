#!/bin/sh
# Make .venv-spark/VERSION, the environments in which bucketfmt_spark runs on the releases of Spark
# that neither .venv (the newest) nor .venv-hudi (3.5) has, each with another release of Python.
# A Python is taken from the path, or from pyenv.
#
# usage: tests/spark/setup.sh
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)

find_python() {
    for python in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
        if "$python" -c '' 2>/dev/null; then echo "$python"; return; fi
    done
}

make_environment() { # SPARK PYTHON
    venv="$root/.venv-spark/$1"
    python=$(find_python "$2")
    [ -n "$python" ] || { echo "setup.sh: no Python $2 on the path or in pyenv" >&2; exit 1; }
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        "pyspark[connect]==$1" 'pandas<3' pyarrow fsspec msgspec pyroaring fastavro isal sqlglot
    "$venv/bin/python" -c 'import sys, pyspark; print("pyspark", pyspark.__version__, "Python", sys.version.split()[0])'
}

make_environment 4.0.5 3.10
make_environment 4.1.4 3.12
make_environment 4.3.0 3.13
