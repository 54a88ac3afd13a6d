# Every target installs what it needs into .venv first; a second run installs nothing.
SHELL  := /bin/bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
JOBS   ?= 2
SECONDS_SOAK ?= 60

FAST   := "not slow and not s3 and not crash and not property and not exhaustive"
PYTHONS ?= 3.11 3.12 3.13

EXTRAS := --extra spark --extra server --extra aws --extra notebook --extra mcp --extra local --extra dev
PIN    := --universal --generate-hashes --no-emit-index-url --no-annotate --no-header

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export LANCE_LOG := error

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak lint check coverage pythons package docs format bench prove vendor lock clean

help:            ## list the targets
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "OmniGraph needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

setup: $(STAMP)  ## install the pinned dependencies into .venv

demo: $(STAMP)   ## set up, then the main job end to end
	@$(BIN)/python examples/demo.py

test: $(STAMP)   ## set up, then every test
	$(PYTEST) -n $(JOBS) --dist loadgroup -m "not exhaustive"

soak: $(STAMP)   ## processes, threads and faults against a plain model; SECONDS_SOAK and SEED say more
	$(BIN)/python -m tests.soak --seconds $(SECONDS_SOAK) $(if $(SEED),--seed $(SEED))

lint: $(STAMP)   ## format, lint, imports, dependencies, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/mypy

check: lint      ## the same, then the fast tests
	$(PYTEST) -n $(JOBS) -q -m $(FAST)

coverage: $(STAMP) ## the fast tests, and which lines they do not reach
	$(PYTEST) -n $(JOBS) -q -m $(FAST) --cov=omnigraph --cov-report=term:skip-covered

pythons: $(STAMP) ## a wheel in a fresh environment of every supported Python that is installed
	$(BIN)/python tests/support/other_pythons.py $(PYTHONS)

format: $(STAMP) ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.bench: $(STAMP) requirements-bench.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-bench.lock
	@touch $(VENV)/.bench

bench: $(VENV)/.bench ## measure side by side with peers, in one run
	@$(BIN)/python -m bench $(BENCH)

prove: pythons package ## the slow property and crash tests with many more examples, and a long soak
	HYPOTHESIS_PROFILE=prove $(PYTEST) -n $(JOBS) -m "property or crash or exhaustive"
	$(BIN)/python -m tests.soak --seconds 1200 --processes 3

package: $(STAMP) ## build wheel and sdist into dist/, then walk a first session in a clean environment
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python tests/support/clean_session.py dist

$(VENV)/.docs: $(STAMP) requirements-docs.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-docs.lock
	@touch $(VENV)/.docs

docs: $(VENV)/.docs ## the documents as a site in site/, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

vendor/node_modules: vendor/package-lock.json
	cd vendor && npm ci --ignore-scripts --no-audit --no-fund
	@touch vendor/node_modules

vendor: vendor/node_modules ## bundle the libraries of the page again, with their licences (needs Node)
	node vendor/build.mjs

lock:            ## pin again (needs uv); names no package host
	uv pip compile pyproject.toml $(EXTRAS) $(PIN) --output-file requirements.lock
	uv pip compile pyproject.toml $(EXTRAS) --extra bench $(PIN) --output-file requirements-bench.lock
	uv pip compile pyproject.toml --extra server --extra mcp --extra aws $(PIN) --output-file requirements-server.lock
	uv pip compile pyproject.toml $(EXTRAS) --extra docs $(PIN) --output-file requirements-docs.lock

clean:           ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
