# One command surface. `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
HUDI_STAMP := .venv-hudi/.ready
FLINK_STAMP := .flink/.ready
STORES_STAMP := .stores/.ready
SPARK_STAMP := .venv-spark/.ready
BROWSER_STAMP := $(VENV)/.browser
MINUTES ?= 30
SEEDS ?= 1 2

# The processes that tests start import what others compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test check check-types check-pages unit judge cluster-test stores-setup stores-test interop-setup browser-setup flink-setup spark-setup bench soak soak-interop judge-matrix clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "bucketfmt needs Python 3.10 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/bucketfmt demo

# To take at most 720 s on two quiet cores: CONTRIBUTING.md says how. Two parts run at a time: while
# one waits, for pip, for the one core that mypy has or for a JVM, the other computes.
test:
	@echo "make test: parts run side by side, and each prints when it is done"
	@began=$$(date +%s); $(MAKE) --no-print-directory --jobs 2 --output-sync=target \
	  check-types check-pages unit judge || exit 1; \
	echo "make test: $$(($$(date +%s) - began)) s, and may take 720 s"

unit: setup
	@$(MAKE) --no-print-directory browser-setup || echo "tests of report pages in a browser are skipped"
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/spark --ignore tests/interop --ignore tests/cluster --ignore tests/stores --ignore tests/docs

# Spark, and real Hudi on Spark, which writes tables and reads ours: needs Java 17. The groups are
# the tests of one JVM: one for Spark, one for each version of Hudi.
judge: setup interop-setup
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/interop tests/spark

# A Spark cluster of several processes on this machine, whose executors are killed: some minutes.
cluster-test: setup
	$(BIN)/python -m pytest tests/cluster -m cluster

# Servers of S3, Google Cloud Storage and Azure on this machine, by Go, Node and Java.
stores-test: setup stores-setup
	$(BIN)/python -m pytest tests/stores -m stores

stores-setup: $(STORES_STAMP)

$(STORES_STAMP): tests/stores/setup.sh tests/stores/s3proxy/pom.xml tests/stores/hdfs/pom.xml
	tests/stores/setup.sh
	touch $(STORES_STAMP)

interop-setup: $(HUDI_STAMP)

$(HUDI_STAMP): tests/interop/setup.sh tests/interop/constraints.txt
	tests/interop/setup.sh $(PYTHON)
	touch $(HUDI_STAMP)

# Spark 4.0, 4.1 and the newest, each with another Python.
spark-setup: $(SPARK_STAMP)

$(SPARK_STAMP): tests/spark/setup.sh
	tests/spark/setup.sh
	touch $(SPARK_STAMP)

# A Chromium, for the tests of report pages.
browser-setup: $(BROWSER_STAMP)

$(BROWSER_STAMP): $(STAMP) tests/report/setup_browser.sh
	tests/report/setup_browser.sh $(BIN)/python
	touch $(BROWSER_STAMP)

flink-setup: $(FLINK_STAMP)

$(FLINK_STAMP): tests/interop/flink/setup.sh tests/interop/flink/pom.xml tests/interop/flink/FlinkServer.java
	tests/interop/flink/setup.sh
	touch $(FLINK_STAMP)

# mypy has one core, so the rest is done on the other: pages, and tests compiled for all who run them.
check: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-pages

check-types: setup
	$(BIN)/mypy

check-pages: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest tests/docs
	$(BIN)/python -m pytest --collect-only -qq > /dev/null

bench: setup interop-setup
	$(BIN)/python -m benchmarks

# Hours, if MINUTES and the strides are chosen so: see docs/reliability.md.
soak: setup interop-setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[soak]'
	$(BIN)/python -m pytest -n auto --dist worksteal --every-case -m '(rotated or hypothesis) and not judge'
	$(BIN)/python -m soak corruption --save --workers 2
	$(BIN)/python -m soak lengths
	$(BIN)/python -m soak fuzz --seconds 60 --workers 2
	$(BIN)/python -m soak peers
	$(BIN)/python -m soak crashes --all --save --workers 2
	$(BIN)/python -m soak interleavings --save --workers 2
	$(BIN)/python -m soak threads --save
	$(BIN)/python -m soak kills --save
	$(BIN)/python -m soak moves --save
	$(BIN)/python -m soak clocks --save
	$(BIN)/python -m soak indexes --save
	$(BIN)/python -m soak machine --save --workers 2
	$(BIN)/python -m soak report
	$(BIN)/python -m tests.interop soak $(MINUTES)

soak-interop: setup interop-setup
	$(BIN)/python -m tests.interop soak $(MINUTES)

# Every play of every kind of table with every version of Hudi, and with Flink: about three hours.
judge-matrix: setup interop-setup flink-setup spark-setup
	SPARK_PYTHONS="$$(ls -d $(CURDIR)/.venv-spark/*/bin/python)" $(BIN)/python -m pytest -n 2 --dist loadgroup --every-case tests/spark/test_other_sessions.py \
	  tests/interop/test_judge.py tests/interop/test_hfiles.py tests/interop/test_expression_index.py tests/interop/test_spark_adapter.py \
	  tests/spark/engine/test_failures.py
	$(BIN)/python -m tests.interop matrix $(SEEDS)
	$(BIN)/python -m tests.interop flink $(SEEDS)

clean:
	rm -rf $(VENV) .venv-hudi .venv-spark .flink .stores build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
