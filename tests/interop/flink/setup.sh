#!/bin/sh
# Make .flink: the jars of Apache Flink and of Hudi's Flink bundle, fetched by Maven from Maven
# Central or the mirror it is set up for, and FlinkServer compiled against them. Needs a JDK 17
# (javac too) and Maven.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../../.." && pwd)
into="$root/.flink"

need() {
    command -v "$1" >/dev/null || { echo "flink/setup.sh: no $1 on the path; install $2" >&2; exit 1; }
}
need javac "a JDK 17 (Debian: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
need java "a JDK 17 (Debian: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
need mvn "Maven (Debian: apt install maven; macOS: brew install maven)"

mvn --quiet --batch-mode --file "$here/pom.xml" \
    dependency:copy-dependencies "-DoutputDirectory=$into/jars"
javac -d "$into/classes" -cp "$into/jars/*" "$here/FlinkServer.java"
