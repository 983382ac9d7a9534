# The commands of a working day. `make up` and `make test` need nothing installed but Python and make.
SHELL := /bin/bash
BIN := .venv/bin
TEST_RUNTIMES := .weir-test/runtimes
TEST_WEIGHTS := .weir-test/weights
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup up down lint test compiled test-setup test-runtime test-rooms test-flows test-engine \
	test-browser test-gpu

help:
	@echo "make up      install, start everything, serve a small model (ARGS=--detach: in the background)"
	@echo "make down    stop it again, engines too"
	@echo "make test    lint, rules, flows, a real vLLM engine, a real browser"
	@echo "make test-gpu   what wants a card: its NVML, a vLLM on it; says so where there is none"
	@echo "make lint    ruff, import contracts, migrations"
	@echo "make setup   only install"
	@echo "make bench-NAME   run tests/bench/NAME.py (gateway, memory, overload, prefix, batching, control, first-light, money)"

setup:
	@deploy/bootstrap.sh

up: setup
	@exec $(BIN)/weir up $(ARGS)

down: setup
	@exec $(BIN)/weir down $(ARGS)

test-setup:
	@deploy/bootstrap.sh --tests
	@deploy/test-needs.sh

lint: test-setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(PYTEST) tests/test_migrations.py

# Rooms and pages side by side, each with servers of its own: much of either is waiting for processes.
# What they say is shown as they say it, so that a run that was ended from outside tells how far it came.
test: test-setup
	@$(MAKE) --no-print-directory -j2 lint compiled
	@$(MAKE) --no-print-directory -j2 test-rooms test-browser

# Else each of the processes that test compiles all of the tests, and all that they import.
compiled: test-setup
	@said=$$($(PYTEST) --collect-only) || { echo "$$said"; exit 1; }

# Workers take file after file (which they begin with: tests/conftest.py). More of them than cores,
# because flows wait. Tests of a real engine install its runtime themselves, while others run.
WORKERS := 3
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
test-rooms: test-setup
	$(PYTEST) $(SPREAD) -m "not browser"

test-flows: test-setup
	$(PYTEST) $(SPREAD) -m "not engine and not browser"

test-runtime: test-setup
	@$(BIN)/python -m engines.runtime install --kind vllm --version 0.32.0 --device cpu --root $(TEST_RUNTIMES)

# pytest fails when it finds no such test.
test-engine: test-setup test-runtime
	$(PYTEST) -m engine

test-browser: test-setup
	DJANGO_ALLOW_ASYNC_UNSAFE=1 $(PYTEST) -p no:asyncio -o addopts="-q --strict-markers -p tests.servers" \
		-W ignore::pytest.PytestConfigWarning -m browser tests/browser

# Not of `make test`, which needs no card.
test-gpu: test-setup
	@$(BIN)/python -m tests.gpu

bench-%: setup
	@test -f tests/bench/$(subst -,_,$*).py || { echo "no benchmark $*: ls tests/bench" >&2; exit 64; }
	$(BIN)/python -m tests.bench.$(subst -,_,$*)
