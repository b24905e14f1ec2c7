# Two commands for a newcomer: `make demo` and `make test`. The rest is in README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RESULTS := tests/benchmarks/results

.DEFAULT_GOAL := help
.PHONY: help demo test test-cluster lint backends lock gpu clean \
	benchmark-overhead benchmark-fit benchmark-telemetry benchmark-steps benchmark-unlike-nodes \
	benchmark-trust benchmark-cost-model benchmark-report benchmark-coverage

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

demo: $(VENV)/.run ## install into .venv, run sweeps/quickstart.yaml, print its report
	$(BIN)/rnnsweep run sweeps/quickstart.yaml

test: $(VENV)/.dev lint ## install with the test tools; lint, types, import contract, all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-cluster: $(VENV)/.cluster ## sweeps on a real cluster of namespaces on this machine; needs root, iproute2, PostgreSQL
	RNNSWEEP_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/cluster

lint: $(VENV)/.dev ## formatting, lint, types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark-overhead: $(VENV)/.dev ## milliseconds per trial of the whole path, beside plain Tune
	$(BIN)/python -m tests.benchmarks.overhead --output $(RESULTS)

benchmark-fit: $(VENV)/.dev ## a trial's timed epochs beside a bare Keras script
	$(BIN)/python -m tests.benchmarks.fit_overhead --output $(RESULTS)

benchmark-telemetry: $(VENV)/.dev ## the share of a core that watching a trial takes
	$(BIN)/python -m tests.benchmarks.telemetry_cost --output $(RESULTS)

backends: $(VENV)/.backends ## install JAX and PyTorch too, so that no test is skipped for want of them

gpu: $(VENV)/.dev ## every check of this machine's GPU, into rnnsweep-data/gpu-checks.json
	$(BIN)/python -m tests.gpu --output rnnsweep-data/gpu-checks.json

benchmark-steps: $(VENV)/.dev ## milliseconds per step of each implementation, beside plain Keras and PyTorch
	$(BIN)/python -m tests.benchmarks.steps --steps 80 --output $(RESULTS)/steps-cpu

benchmark-unlike-nodes: $(VENV)/.dev ## idle hardware and makespan on a cluster of unlike nodes, beside plain Tune; NOTE=… is kept with it
	$(BIN)/python -m tests.benchmarks.unlike_nodes --output $(RESULTS) $(if $(NOTE),--note "$(NOTE)")

benchmark-trust: $(VENV)/.backends ## proof that comparisons can be trusted: 40 minutes of real sweeps on a quiet machine
	$(BIN)/python -m tests.benchmarks.trust

benchmark-cost-model: $(VENV)/.backends ## how far predictions of time and memory are off on configs not shown: twelve minutes on a quiet machine
	$(BIN)/python -m tests.benchmarks.cost_model --output $(RESULTS)

benchmark-report: $(VENV)/.dev ## a report of 10,000 trials beside mlflow.search_runs; makes its store first (minutes)
	$(BIN)/python -m tests.benchmarks.report --store rnnsweep-data/benchmark-report --output $(RESULTS)

benchmark-coverage: $(VENV)/.dev ## how often intervals hold a known truth: the figures of the docstrings (minutes)
	$(BIN)/python -m tests.benchmarks.coverage --output $(RESULTS)

lock: $(VENV)/.dev ## pin the dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header \
		pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --extra dev \
		-c requirements.lock pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --extra cluster \
		-c requirements-dev.lock pyproject.toml -o requirements-cluster.lock

clean: ## remove .venv, caches and this folder's sweeps
	rm -rf $(VENV) rnnsweep-data .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "rnnsweep needs Python 3.11 or newer; set PYTHON="'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.run

$(VENV)/.backends: requirements-backends.txt | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -r requirements-backends.txt
	touch $@

$(VENV)/.cluster: requirements-cluster.lock | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -r requirements-cluster.lock
	touch $@
