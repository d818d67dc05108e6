#!/bin/sh
# Build the wheel and the sdist, and try the wheel with interpreters: `try_wheel.sh python3.10 python3.14`.
#
# For each interpreter: install the wheel alone in a fresh virtual environment, where the command line
# names the extra to install; install its extras; run the demo and the unit tests of the rooms that read and
# write, against the installed package. Prints one line for each interpreter. TESTS and LOGS may be given.
# With LOWEST=1, each package is of the lowest release that pyproject.toml allows, or else of the newest.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
tests=${TESTS:-tests/format tests/rows tests/index tests/table tests/write tests/cli tests/packaging/test_first_minute.py}
work=$(mktemp -d)
logs=${LOGS:-$work}
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
test $# -gt 0 || { echo "name interpreters to try: try_wheel.sh python3.10 python3.13" >&2; exit 64; }

say() { printf '%s\n' "$*"; }

"$1" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet build twine
git -C "$root" archive --output "$work/source.tar" HEAD
mkdir "$work/source" "$work/away"
tar -xf "$work/source.tar" -C "$work/source"
"$work/tools/bin/python" -m build --outdir "$work/dist" "$work/source" > "$logs/build.log" 2>&1
"$work/tools/bin/twine" check --strict "$work"/dist/*
wheel=$(echo "$work"/dist/*.whl)

# The tests without the source of the package, so that they import the one that is installed.
for folder in tests soak spec docs pyproject.toml; do cp -r "$work/source/$folder" "$work/away"; done

if test -n "${LOWEST:-}"; then
  grep -o '"[A-Za-z][A-Za-z0-9-]*>=[0-9.]*' "$work/source/pyproject.toml" | sed 's/"//; s/>=/==/' > "$work/lowest.txt"
  export PIP_CONSTRAINT="$work/lowest.txt"
fi

status=0
for python in "$@"; do
  version=$("$python" -c 'import platform; print(platform.python_version())')
  venv=$work/venv-$version
  bin=$venv/bin
  "$python" -m venv "$venv"
  "$bin/python" -m pip install --quiet "$wheel"
  plain=0
  told=$("$bin/bucketfmt" 2>&1) || plain=$?
  case "$plain $told" in
    "2 "*"pip install 'bucketfmt[cli]'") ;;
    *) say "$version: a plain install says: $told (exit $plain)"; status=1 ;;
  esac
  "$bin/python" -m pip install --quiet "$wheel[cli,s3,pandas,polars,duckdb,testing]" \
    pytest pytest-timeout pytest-xdist requests xxhash
  "$bin/bucketfmt" demo > "$logs/demo-$version.log"
  # shellcheck disable=SC2086  # a list of folders
  if (cd "$work/away" && "$bin/python" -m pytest -n "${JOBS:-2}" --dist worksteal -p no:cacheprovider \
      --ignore tests/table/reading/test_hudi_rs.py $tests) > "$logs/tests-$version.log" 2>&1; then
    say "$version: $(tail -1 "$logs/tests-$version.log")"
  else
    tail -40 "$logs/tests-$version.log"
    say "$version: failed"
    status=1
  fi
  rm -rf "$venv"
done
exit $status
