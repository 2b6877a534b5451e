# Everything a contributor runs. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
EXTRAS ?= torch,math,tensorboard,gymnasium,reasoning-gym,textarena
PYTHON ?= $(shell scripts/find-python)
# Passed on to pytest: make test ARGS="tests/rewards -x"
ARGS ?=
# Processes that the suite runs in, a file of tests in one of them; 0 is none but its own, for a debugger. One more than
# there are cores in CI: many tests wait for processes of their own.
WORKERS ?= 3

BIN := $(VENV)/bin
# Directories too: their time changes when a file is removed.
SOURCES := $(shell find src -not -path '*/__pycache__*' -not -name '*.pyc')

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: $(VENV)/.wheel ## make .venv with artkit, the torch extra and the development tools (PYTHON=, TORCH_INDEX_URL=)

.PHONY: demo
demo: setup ## train a small agent on this machine and show that it got better (ARGS="--seed 1")
	@$(BIN)/artkit demo $(ARGS)

.PHONY: test
test: setup ## run the whole suite against the installed wheel (ARGS="tests/rewards -x")
	@ARTKIT_TEST_INSTALLED=1 $(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

.PHONY: check
check: lint types floors spelling ## run every check; the suite runs once, with doctests and branch coverage
	@$(MAKE) test ARGS="--cov"

.PHONY: lint
lint: setup ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: types
types: setup ## mypy, strict
	@$(BIN)/mypy

.PHONY: floors
floors: setup ## import-linter: a room imports only from lower floors
	@PYTHONPATH=src $(BIN)/lint-imports --no-cache

.PHONY: spelling
spelling: setup ## codespell
	@$(BIN)/codespell

.PHONY: format
format: setup ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: api
api: setup ## write the public API's snapshot anew; its diff is reviewed
	@$(BIN)/python scripts/update_public_api.py

.PHONY: test-py312 setup-py312
test-py312: ## the torch-free part of the suite on Python 3.12 with the newest supported openpipe-art
test-py312 setup-py312: %-py312:
	@$(MAKE) $* VENV=.venv-py312 EXTRAS=tensorboard PYTHON="$$(scripts/find-python 3.12)"

.PHONY: bench
bench: setup ## run the benchmarks, short; not those that need TRL or SmolLM2 (see benchmarks/README.md)
	@for benchmark in $(filter-out %/common.py %/train_step.py %/lora_train.py,$(wildcard benchmarks/*.py)); do \
		$(BIN)/python $$benchmark --quick; \
	done

.PHONY: clean
clean: ## remove what the other targets made
	@rm -rf .venv .venv-py312 dist build htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests scripts benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made anew only when what goes into it changed.
$(VENV)/.deps: pyproject.toml scripts/make-venv $(wildcard constraints/*.txt)
	@echo "setting up $(VENV): takes a few minutes the first time"
	@scripts/make-venv $(VENV) "$(PYTHON)" "$(EXTRAS)"
	@touch $@

# The tests and the demo import what a user would: the wheel, built through the source distribution.
$(VENV)/.wheel: $(VENV)/.deps $(SOURCES) README.md LICENSE
	@rm -rf $(VENV)/dist
	@$(BIN)/python -m build --no-isolation --outdir $(VENV)/dist >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@$(BIN)/python -m pip install -qq --no-deps --force-reinstall --disable-pip-version-check $(VENV)/dist/*.whl
	@touch $@
