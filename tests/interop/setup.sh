#!/bin/sh
# Make .venv-hudi, the environment in which real Apache Hudi runs: it writes tests/data and the
# benchmark data, and judges what bucketfmt wrote. It has what bucketfmt needs too, so that
# bucketfmt_spark runs there, on Spark 3.5 and in one session with Hudi. Needs Python 3.11 (or
# 3.12) and a JVM 17. Spark fetches the Hudi bundle itself when first used, from Maven Central or
# the mirror it is set up for.
#
# usage: tests/interop/setup.sh [PYTHON]        PYTHON: the interpreter to use, python3 by default
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
venv="$root/.venv-hudi"

command -v java >/dev/null || { echo "setup.sh: no java on the path; install a JVM 17" >&2; exit 1; }
[ -x "$venv/bin/python" ] || "${1:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade \
    --constraint "$root/constraints.txt" pip
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile \
    --constraint "$root/tests/interop/constraints.txt" \
    pyspark pyarrow pandas fastavro fsspec msgspec pyroaring
"$venv/bin/python" -c 'import pyspark; print("pyspark", pyspark.__version__)'
