# A newcomer needs two commands: `make demo` and `make test`. README.md describes the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTHONS ?= python3.11 python3.12 python3.13
RESULTS := infra/benchmarks/results
GALLERY_HOME ?= $(CURDIR)/rnnsweep-data/gallery
GALLERY_PAGES ?= quickstart
GALLERY := RNNSWEEP_HOME=$(GALLERY_HOME) $(BIN)/rnnsweep
GPU_BACKENDS ?= torch,jax
GPU_CUDA := $(if $(findstring tensorflow,$(GPU_BACKENDS)),12,13)
PACKAGES_cuda12 := 'tensorflow[and-cuda]' 'jax[cuda12]'
PACKAGES_cuda13 := torch 'jax[cuda13]'
COMPILERS_cuda13 := $(foreach name,cuda-nvcc cuda-crt nvvm nvjitlink,'nvidia-$(name)==13.0.*')
GPU_VENV := .venv-cuda$(GPU_CUDA)
GPU_RESULTS ?= rnnsweep-data/gpu-checks-cuda$(GPU_CUDA).json
# Python compiles a module when it is first imported, and most of TensorFlow never is. Where Python is
# told to keep no compiled modules, pip compiles all.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
COMMA := ,
GPU := bin/python -m infra.gpu --backends $(subst $(COMMA), ,$(GPU_BACKENDS))
CHROMIUM := chromium --headless --no-sandbox --hide-scrollbars --window-size=1440,900 --virtual-time-budget=30000

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-all test-rest test-faults soak test-cluster docs gallery gallery-pages lint backends lock lock-cuda12 lock-cuda13 gpu gpu-full gpu-docs frozen-store dist clean \
	benchmark-steps benchmark-own-model benchmark-passes benchmark-scale \
	benchmark-trust benchmark-report benchmark-turns benchmark-wide

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

demo: $(VENV)/.run ## install into .venv, run the sweep quickstart, print its report
	$(BIN)/rnnsweep run quickstart

test: $(VENV)/.dev ## install the test tools; check formatting, lint, types and imports; run the tests (8 minutes)
	@$(MAKE) --jobs 2 lint test-quick

test-quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not full"

test-all: test test-rest ## run the other tests too: every backend and sweep file, browser, Slurm, faults, cluster

test-rest: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m full
	@if [ "$$(id -u)" = 0 ] && unshare --net --mount --uts --pid --ipc --fork true; then \
		$(MAKE) test-cluster; \
	else \
		echo "skipped the tests on a cluster, which need root and namespaces"; \
	fi

test-faults: $(VENV)/.dev ## run the tests of faults alone: kills, hostile workloads, damaged files, failing stores (4 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/faults

soak: $(VENV)/.dev ## run them again and again for an hour, with new seeds and five times as many faults
	@end=$$(( $$(date +%s) + 3600 )); while [ $$(date +%s) -lt $$end ]; do \
		RNNSWEEP_FAULT_SCALE=5 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 3600 tests/faults || exit 1; \
	done

test-cluster: $(VENV)/.cluster ## run sweeps on a cluster of namespaces on this machine; needs root, iproute2, PostgreSQL
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/cluster

docs: $(VENV)/.dev ## write the generated parts of docs/, and build the site into build/site
	$(BIN)/python -m orchestrator.cli.reference docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

gallery: $(VENV)/.backends ## run the sweep of docs/gallery on an idle machine (4 minutes), and renew its page and docs/images; needs Chromium
	$(GALLERY) run sweeps/quickstart.yaml
	@$(MAKE) gallery-pages

gallery-pages: # of the sweeps that were run before
	for name in $(GALLERY_PAGES); do \
		$(GALLERY) report $$name -o $(GALLERY_HOME)/$$name.html && \
		$(CHROMIUM) --screenshot=$(CURDIR)/docs/gallery/$$name.png file://$(GALLERY_HOME)/$$name.html && \
		{ printf '# %s\n\n```text\n' "$$name"; $(GALLERY) report $$name; \
		  printf '```\n\n![The first screen of the page](%s.png)\n' "$$name"; } > docs/gallery/$$name.md || exit 1; \
	done
	$(BIN)/python -m tests.browser.pictures --home $(GALLERY_HOME) quickstart

lint: $(VENV)/.dev ## check formatting, lint, types and imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

backends: $(VENV)/.backends ## install JAX and PyTorch as well, so that their tests are not skipped

gpu: ## check this machine's GPU (10 minutes per backend); resumes; GPU_BACKENDS=tensorflow,jax or torch,jax
	$(PYTHON) infra/gpu/preflight.py --cuda $(GPU_CUDA) --backends '$(GPU_BACKENDS)' --environment $(GPU_VENV)
	@$(MAKE) $(GPU_VENV)/.ready
	$(GPU_VENV)/$(GPU) --output $(GPU_RESULTS) --limit-s 600

gpu-full: ## run every check of this machine's GPU at every size (an hour per backend)
	$(PYTHON) infra/gpu/preflight.py --cuda $(GPU_CUDA) --backends '$(GPU_BACKENDS)' --environment $(GPU_VENV)
	@$(MAKE) $(GPU_VENV)/.ready
	$(GPU_VENV)/$(GPU) --output $(GPU_RESULTS:.json=-full.json) --sizes full

gpu-docs: ## write the tables of docs/gpu.md from the results of make gpu, of both environments
	$(PYTHON) -m infra.gpu.table $(wildcard rnnsweep-data/gpu-checks-cuda12.json rnnsweep-data/gpu-checks-cuda13.json)

benchmark-steps: $(VENV)/.dev ## measure milliseconds per step of each implementation, compared with Keras' fit
	$(BIN)/python -m infra.benchmarks.steps --steps 80 --output $(RESULTS)

benchmark-own-model: $(VENV)/.backends ## measure milliseconds per step of an own model, compared with bare Keras fit (10 minutes on an idle machine)
	$(BIN)/python -m infra.benchmarks.own_model --output $(RESULTS)

benchmark-passes: $(VENV)/.backends ## measure recurrent layers on PyTorch as a Keras model and as nn.LSTM by hand (2 minutes on an idle machine)
	$(BIN)/python -m infra.benchmarks.passes --output $(RESULTS)

benchmark-scale: $(VENV)/.dev ## measure decisions and samplers at 1,000 nodes, 100,000 trials and 10,000 configs (20 minutes)
	$(BIN)/python -m infra.benchmarks.scale --output $(RESULTS)

benchmark-trust: $(VENV)/.backends ## check the error rates of comparisons: 30 minutes of real sweeps on an idle machine
	$(BIN)/python -m infra.benchmarks.trust

benchmark-turns: $(VENV)/.backends ## measure statistics over turns beside other processes: 20 minutes on an idle machine; resumes
	$(BIN)/python -m infra.benchmarks.turn_statistics --output $(RESULTS)

benchmark-report: $(VENV)/.dev ## measure reports and queries of 10,000 and of 100,000 trials; creates their stores first (minutes)
	$(BIN)/python -m infra.benchmarks.report --store rnnsweep-data/benchmark-report --output $(RESULTS)
	$(BIN)/python -m infra.benchmarks.report --trials 100000 --store rnnsweep-data/benchmark-report-100000 --output $(RESULTS)

benchmark-wide: $(VENV)/.dev ## measure the efficiency of a cluster of 40 Ray nodes on this machine, and check its estimated makespan (17 minutes)
	$(BIN)/python -m infra.benchmarks.scaling.wide --output $(RESULTS)

frozen-store: $(VENV)/.dev ## run small sweeps, and freeze their store as tests/frozen/VERSION (2 minutes), before a release
	$(BIN)/python -m tests.frozen

dist: $(VENV)/.dist ## build dist/ twice and compare, check with twine, install for each of PYTHONS that is here (10 minutes)
	$(BIN)/python -m tests.release --pythons $(PYTHONS)

lock: $(VENV)/.dev ## update the pinned dependencies
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header \
		pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --extra dev \
		-c requirements.lock pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --extra cluster \
		-c requirements-dev.lock pyproject.toml -o requirements-cluster.lock
	@$(MAKE) lock-cuda12 lock-cuda13

lock-cuda12 lock-cuda13: lock-%: $(VENV)/.dev # the constraints of one GPU environment
	sed '/^[^#]/d' requirements-$*.txt > requirements-$*.new
	printf '%s\n' $(PACKAGES_$*) $(COMPILERS_$*) | \
		$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
		--no-header --no-annotate -c requirements-dev.lock -c requirements-backends.txt - | \
		grep -E '^(nvidia|cuda|jax|torch|triton|tensorflow)' >> requirements-$*.new
	mv requirements-$*.new requirements-$*.txt

clean: ## remove .venv, caches and this folder's sweeps
	rm -rf $(VENV) rnnsweep-data .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "rnnsweep needs Python 3.11 or newer; set PYTHON="'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing TensorFlow, Ray, MLflow and what they need into $(VENV): 2 to 6 minutes, most of them downloads"
	$(BIN)/python -m pip install $(COMPILE) -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing rnnsweep's packages and the tools of its tests into $(VENV): 2 to 6 minutes, most of them downloads"
	$(BIN)/python -m pip install --progress-bar off $(COMPILE) -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.run

$(VENV)/.backends: requirements-backends.txt | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet $(COMPILE) -r requirements-backends.txt
	touch $@

# The wheels of TensorFlow are for CUDA 12, the wheels of PyTorch for CUDA 13: each has an environment.
$(GPU_VENV)/.ready: requirements-dev.lock requirements-backends.txt requirements-cuda$(GPU_CUDA).txt pyproject.toml
	$(PYTHON) -m venv $(GPU_VENV)
	grep -v '^tensorflow==' requirements-dev.lock > $(GPU_VENV)/base.txt
	$(GPU_VENV)/bin/python -m pip install --quiet -r $(GPU_VENV)/base.txt $(PACKAGES_cuda$(GPU_CUDA)) \
		-c requirements-dev.lock -c requirements-backends.txt -c requirements-cuda$(GPU_CUDA).txt
	$(GPU_VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dist: requirements-dist.txt | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -r requirements-dist.txt
	touch $@

$(VENV)/.cluster: requirements-cluster.lock | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet $(COMPILE) -r requirements-cluster.lock
	touch $@
