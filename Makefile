# Two commands matter: `make demo` and `make test`. Each sets up what it needs in .venv, from exact versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: setup setup-dev demo test test-cluster test-trainers lint ui bench harden proof clean
.DELETE_ON_ERROR:

setup: $(VENV)/.runtime
setup-dev: $(VENV)/.dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "trace-flywheel needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/flywheel demo

ui: setup
	$(BIN)/flywheel ui

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# The layouts through the trainers' own loaders, in two environments of their own. BenchFlow needs Python 3.12.
TRAINERS := .venv-trainers
BENCHFLOW := .venv-benchflow
PYTHON312 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python) python3.12)

$(TRAINERS)/.ready: tests/trainers_proof/requirements.txt
	$(PYTHON) -m venv $(TRAINERS)
	$(TRAINERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python -r $<
	@touch $@

$(BENCHFLOW)/.ready:
	$(PYTHON312) -m venv $(BENCHFLOW)
	$(BENCHFLOW)/bin/python -m pip install --quiet --disable-pip-version-check benchflow==0.7.12.dev2426
	@touch $@

test-trainers: $(TRAINERS)/.ready $(BENCHFLOW)/.ready
	TRAINERS_REQUIRED=1 BENCH=$(BENCHFLOW)/bin/bench $(TRAINERS)/bin/python -m pytest tests/trainers_proof

# More than one machine: Redis, PostgreSQL and Celery workers, a Ray cluster. Dagster comes as its Celery package names it, gRPC
# and protobuf as that Dagster names them.
CLUSTER := .venv-cluster

$(CLUSTER)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CLUSTER)
	grep -Ev '^(dagster|grpcio|protobuf)' constraints.txt > $(CLUSTER)/constraints.txt
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(CLUSTER)/constraints.txt --editable '.[dev,deploy,ray]'
	@touch $@

test-cluster: $(CLUSTER)/.ready
	CLUSTER_REQUIRED=1 $(CLUSTER)/bin/python -m pytest -m 'deploy or ray' tests/orchestration/test_cluster.py tests/flow/test_near_ray.py

bench: setup-dev
	$(BIN)/python -m benchmarks $(BENCH)

harden: setup-dev
	$(BIN)/python -m tests.harden

proof: setup-dev
	$(BIN)/python -m tests.proof

clean:
	rm -rf $(VENV) $(CLUSTER) $(TRAINERS) $(BENCHFLOW) .flywheel build dist
