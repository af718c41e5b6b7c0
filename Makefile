# rota: `make` lists the targets. Everything below .venv/ is made here and from requirements/*.txt alone.
.DEFAULT_GOAL := help
SHELL := /bin/sh
UV := .uv/bin/uv
VENV := .venv
BIN := $(VENV)/bin
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
# What `make test` repeats on PostgreSQL, besides the conformance of the store; `make test-faults` repeats all that plays on scenes.
SHORT_ON_POSTGRES := $(addprefix tests/engine/test_,fire.py gates.py recover.py pools.py direct.py passed_over.py) tests/machine tests/simulation/test_simulation.py
# What starts schedulers and waits for them.
WAITING := tests/service tests/faults $(addprefix tests/faces/test_,serving.py mcp.py) tests/simulation/test_planted_bugs.py
# How many failed tests `make test-again` repeats, and of which runs.
UNSTABLE := 3
PARTS := computing waiting on-postgres

.PHONY: help man dist bench bench-short run test test-computing test-waiting test-on-postgres test-again test-faults test-agents test-browser chromium check lint types layers cover docs lock clean setup

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.uv/bin/uv: tools/uv.txt
	python3 -m venv --clear .uv
	.uv/bin/pip install --quiet --disable-pip-version-check -r tools/uv.txt
	@touch $@

$(VENV)/installed: $(UV) requirements/dev.txt pyproject.toml
	$(UV) venv --quiet --clear --python python3 $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/installed ## make the virtual environment from the locked requirements

run: setup ## start the demo: an example project with its dashboard (Ctrl-C ends it)
	@$(BIN)/rota demo

# Once in a fresh clone: else each of eleven processes compiles all that it collects. What fails here fails in the tests too.
$(VENV)/compiled: $(VENV)/installed
	@find tests -name 'test_*.py' | xargs -P 2 -n 250 $(BIN)/python -m pytest --collect-only -n 0 > /dev/null || :
	@touch $@

test: setup $(VENV)/compiled ## run all tests
	@rm -f $(VENV)/*.failed
	@$(MAKE) --no-print-directory --jobs 3 test-computing test-waiting test-on-postgres

# Three runs beside each other: those that wait for processes leave the processors to those that compute.
# Their databases lie in memory where it has 2 GB for them: a flush of the disk proves nothing there. Those that wait, crash and cut power use the disk.
MEMORY = $(shell df -k /dev/shm 2> /dev/null | awk 'END { if ($$4 > 2000000) print "/dev/shm" }')
test-computing: export ROTA_TEST_FAILED = $(VENV)/test-computing.failed
test-computing: export PYTEST_DEBUG_TEMPROOT = $(MEMORY)
test-computing: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal --max-worker-restart 0 $(addprefix --ignore=,$(WAITING))

test-waiting: export ROTA_TEST_FAILED = $(VENV)/test-waiting.failed
test-waiting: setup
	@$(call beside,waiting,-n 4 --dist loadgroup --max-worker-restart 0 $(WAITING))

test-on-postgres: export ROTA_TEST_STORE = postgres
test-on-postgres: export ROTA_TEST_FAILED = $(VENV)/test-on-postgres.failed
test-on-postgres: setup
	@$(call beside,on PostgreSQL,-n 0 $(SHORT_ON_POSTGRES))

# Of the tests beside, whose arguments these are, only the last line is shown, or everything where one fails.
beside = log="$(VENV)/$@.log" && { $(BIN)/python -m pytest $(2) > "$$log" 2>&1 || { cat "$$log"; exit 1; }; } \
	&& echo && echo "$(1): $$(tail -n 1 "$$log")"

# Each of these tests is a bug, in the test or in rota: its name and its first failure stay in the output.
test-again: setup ## repeat what failed in `make test`, at most UNSTABLE tests, one after another
	@lists="$(PARTS:%=$(VENV)/test-%.failed)" && cat $$lists > $(VENV)/failed && test -s $(VENV)/failed \
	  && test "$$(wc -l < $(VENV)/failed)" -le $(UNSTABLE)
	@echo "repeated because they failed:" && cat $(VENV)/failed
	@for part in $(PARTS); do list=$(VENV)/test-$$part.failed; test -s $$list || continue; \
	  store=$$(test $$part = on-postgres && echo postgres); \
	  env $${store:+ROTA_TEST_STORE=$$store} $(BIN)/python -m pytest -n 0 @$$list || exit 1; done

test-faults: setup ## kills, power cuts, failing disks, clock steps, trees, storms on PostgreSQL, simulated days (FAULTS='--kills 100' for less)
	$(BIN)/python -m tests.faults.run $(FAULTS)
	$(BIN)/python -m tests.faults.storm --daemons 5 --jobs 100 --fires 100000 --seed 1
	$(BIN)/python -m tests.simulation --seeds 10000
	ROTA_TEST_STORE=postgres $(BIN)/python -m tests.simulation --seeds 500
	ROTA_MACHINE=1000 SCHEMA_CASES=20 $(BIN)/python -m pytest -n 2 tests/machine tests/api/test_schema.py
	ROTA_TEST_STORE=postgres ROTA_MACHINE=200 $(BIN)/python -m pytest -n 2 tests/engine tests/machine

.agents/installed: tests/agents/packages.txt
	rm -rf .agents && mkdir .agents
	npm install --prefix .agents --no-package-lock --no-audit --no-fund --loglevel error $$(cat $<)
	@touch $@

test-agents: setup .agents/installed ## the real agents (npm, 1.3 GB) against a stub of their models
	$(BIN)/python -m pytest -n 0 --timeout 900 tests/agents/real_agents.py

chromium:
	@if command -v "$${ROTA_CHROMIUM:-chromium}" > /dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	else echo 'no chromium here: install it (apt-get install chromium), or name another one in ROTA_CHROMIUM' >&2; exit 1; fi

test-browser: export ROTA_TEST_FAILED = $(VENV)/test-browser.failed
test-browser: setup chromium ## the dashboard in Chromium (apt-get installs it where it is missing and we are root)
	$(BIN)/python -m pytest -n 0 $(BROWSER) $(wildcard tests/browser/real_*.py)

check: lint types layers docs cover ## format, lint, types, layers, docs, tests with coverage

lint: setup ## ruff format and lint, spelling, plain English
	$(BIN)/ruff format --check --quiet src tests examples tools
	$(BIN)/ruff check --quiet src tests examples tools
	$(BIN)/codespell src docs examples tools *.md
	$(BIN)/python tools/prose.py

types: setup ## mypy --strict
	$(BIN)/mypy

layers: setup ## the layer contract (import-linter)
	$(BIN)/lint-imports

cover: setup ## all tests; model, rules and engine at 90 % or more
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 3 --dist loadgroup
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='src/rota/model/*,src/rota/rules/*,src/rota/engine/*' --fail-under=90

docs: setup ## build the documentation, strictly
	$(BIN)/zensical build --strict > /dev/null

$(VENV)-bench/installed: $(UV) requirements/bench.txt pyproject.toml
	$(UV) venv --quiet --clear --python python3 $(VENV)-bench
	$(UV) pip sync --quiet --python $(VENV)-bench/bin/python --require-hashes requirements/bench.txt
	$(UV) pip install --quiet --python $(VENV)-bench/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

bench: $(VENV)-bench/installed ## measure rota beside its peers and the raw limit (BENCH=noop: that part alone)
	$(VENV)-bench/bin/python -m bench $(BENCH)

bench-short: $(VENV)-bench/installed ## a round of seconds of every part of the bench, to see that it still runs
	BENCH_SHORT=1 $(VENV)-bench/bin/python -m bench $(BENCH)

lock: $(UV) ## compile requirements/*.txt anew from pyproject.toml
	$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --upgrade \
	  --python-version 3.11 --custom-compile-command 'make lock' \
	  --extra dev requirements/build.in pyproject.toml --output-file requirements/dev.txt
	$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --upgrade \
	  --python-version 3.11 --custom-compile-command 'make lock' \
	  --extra bench requirements/build.in pyproject.toml --output-file requirements/bench.txt

man: setup ## write the man pages from the help texts into man/
	$(BIN)/python tools/man.py man

dist: man ## build the sdist, with the man pages, and the wheel into dist/
	PATH="$(CURDIR)/$(BIN):$$PATH" $(UV) build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

clean: ## remove what make made
	rm -rf .uv .agents man $(VENV) $(VENV)-bench bench/results bench/scratch build dist site .coverage .coverage.* .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
