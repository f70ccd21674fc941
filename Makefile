# crosslevel: every target sets up what it needs in .venv and is quick the second time.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One BLAS thread per test worker, two workers: both cores busy, neither fought over.
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-all harden lint mypy format bench bench-full bench-truth bench-truth-all docs browser release-check clean

help: ## this text
	@echo "crosslevel: what can be said about people when the outcome is known only for groups"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "crosslevel needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing crosslevel (about a minute, once) ..."
	@$(PIP) install -c constraints.txt -e '.[report]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing crosslevel and its test tools (a few minutes, once) ..."
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing the documentation tools ..."
	@$(PIP) install -c constraints.txt -e '.[dev,docs]'
	@touch $@

demo: $(VENV)/.run ## simulate a nation, estimate its subgroups, compare with the truth, write a report
	@$(BIN)/crosslevel demo

test: $(VENV)/.dev ## the test suite (about 13 minutes on two cores)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-all: $(VENV)/.dev ## the test suite and the long studies
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term

browser: $(VENV)/.dev ## only the tests that drive a real browser
	@$(BIN)/python -m pytest -m browser

harden: $(VENV)/.dev ## hostile input, kills, full disks, orders, mutants; one table (30 minutes on two cores)
	@$(BIN)/python -m tests.harden $(HARDEN)

lint: $(VENV)/.dev ## ruff, mypy --strict, import layers, measures of the house
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@OMP_NUM_THREADS=1 $(BIN)/python tests/house.py

mypy: $(VENV)/.dev # types alone, for the hook before a push
	@$(BIN)/mypy

format: $(VENV)/.dev ## rewrite the code in the house style
	@$(BIN)/ruff check --fix-only --exit-zero .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev ## speed and memory as ratios to peers
	@for f in benchmarks/*.py; do echo "== $$f"; $(BIN)/python $$f || exit 1; done

bench-full: $(VENV)/.dev ## really stream 10.8 million simulated people (disk: about 2 GB, minutes)
	@$(BIN)/python benchmarks/embedding.py --full

bench-truth: $(VENV)/.dev ## a part of every task of known truth, every quick method; writes docs/bench.md (minutes)
	@$(BIN)/python -m bench run

bench-truth-all: $(VENV)/.dev ## every case, the slow methods too, peers in environments of their own (hours)
	@$(BIN)/python -m bench run --all

docs: $(VENV)/.docs ## the documentation, in docs/_build/html
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

release-check: $(VENV)/.run $(VENV)/.release ## sp-repo-review, wheel and sdist, what they hold, an installation from the wheel
	@PYTHON=$(BIN)/python BIN=$(VENV)/release/bin .ci/release-check

$(VENV)/.release: $(BIN)/python pyproject.toml
	@echo "Installing the release tools in $(VENV)/release (once) ..."
	@$(PYTHON) -m venv $(VENV)/release
	@$(VENV)/release/bin/python -m pip --disable-pip-version-check --quiet install 'build>=1.2' 'hatchling>=1.25' 'twine>=6.0' 'check-wheel-contents>=0.6' 'sp-repo-review[cli]>=2025.1' pyyaml
	@touch $@

clean: ## remove what the other targets made
	@rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage dist build demo \
	  docs/_build docs/api docs/auto_gallery docs/_static/screens docs/sg_execution_times.rst
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
