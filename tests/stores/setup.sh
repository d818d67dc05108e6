#!/bin/sh
# Make .stores: the servers of tests/stores, each by the client of its registry, as these are set up.
# What the machine cannot run (no Go, no Node, no JDK) is left out, and its tests are skipped.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
into="$(CDPATH= cd -- "$here/../.." && pwd)/.stores"
mkdir -p "$into/bin" "$into/azurite"

has() {
    command -v "$1" >/dev/null || { echo "stores/setup.sh: no $1 on the path: $2 is left out" >&2; return 1; }
}

if has go fake-gcs-server; then
    GOBIN="$into/bin" go install github.com/fsouza/fake-gcs-server@v1.52.2
fi
if has go versitygw; then
    GOBIN="$into/bin" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
fi
if has npm azurite; then
    npm install --silent --no-audit --no-fund --no-package-lock --prefix "$into/azurite" azurite@3.35.0
fi
if has mvn s3proxy; then
    mvn --quiet --batch-mode --file "$here/s3proxy/pom.xml" \
        dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$into/s3proxy/jars"
fi
if has mvn hdfs; then
    mvn --quiet --batch-mode --file "$here/hdfs/pom.xml" \
        dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$into/hdfs/jars"
fi
