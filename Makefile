# All development commands. `make` without a target lists them.

VENV ?= .venv
# The first of these that is new enough creates the environment; if PYTHON is set, only that one is tried.
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
# The benchmarks' peer systems have a separate environment, because their pins may conflict with ours.
PEERS ?= .venv-bench
# Pins must fit every supported Python, so they are resolved on the oldest.
LOCK_PYTHON ?= python3.11

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv takes seconds where pip takes minutes. It does not read pip's settings: if they name an index, or if uv fails, pip
# installs.
INSTALL := scripts/install $(BIN)/python
INSTALL_FAILED := "The installation failed: see the reason above. To start afresh, run 'make clean' and this command again."
BENCH = $(BIN)/python benchmarks/all.py $(if $(DATA),"$(DATA)") --peers-python "$(abspath $(PEERS))/bin/python"
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Where it is set, every process of the tests compiles all modules for itself, which takes a minute of a run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo serve check check-package client unit test test-faults lint types collect format bench bench-full docs lock clean

##@ Use
demo: $(VENV)/.base ## Search the sample tickets, on its own database; nothing to configure
	@$(BIN)/python examples/demo.py

serve: $(VENV)/.serve ## Serve over HTTP for programs of this machine, without keys, on its own database
	@$(BIN)/retrieval serve --insecure-local

##@ Develop
check: $(VENV)/.dev ## Check style and types, and run the unit tests: for every change, in about a minute
	@$(MAKE) --no-print-directory --jobs=3 --output-sync lint types unit

unit: $(VENV)/.dev ## Run the tests that need no database
	@$(BIN)/python -m pytest tests/unit -q -n 2

test: $(VENV)/.dev ## Run every test, four at a time for two cores, because some wait; what fails runs once more, alone
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder || { [ $$? -eq 1 ] && \
	    echo "Once more, alone: a test that failed because the machine was busy passes now." && \
	    $(BIN)/python -m pytest --last-failed; }

test-faults: $(VENV)/.dev ## Kill processes, cut connections and set clocks at random for ten minutes, and write benchmarks/results/faults.md
	@RETRIEVAL_TEST_FAULTS_SECONDS=$(or $(SECONDS),420) RETRIEVAL_TEST_EXAMPLES=$(or $(EXAMPLES),100) \
	    $(BIN)/python -m pytest tests/faults -q -s

lint: $(VENV)/.dev ## Check style, formatting, and that imports only point down
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: $(VENV)/.dev ## Check types, strictly
	@$(BIN)/mypy

collect: $(VENV)/.dev ## Load every test without running it
	@$(BIN)/python -m pytest --collect-only -q | tail -1

format: $(VENV)/.dev ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev $(PEERS)/.peers ## Compare with peers and measure growth; with DATA=folder of the test collections also quality
	@$(BENCH)

bench-full: $(VENV)/.dev $(PEERS)/.peers ## The same up to 300,000 items and 10,000 tenants, and the learning curve; takes hours
	@$(BENCH) --full

docs: $(VENV)/.dev ## Build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo "The site is in build/site; open build/site/index.html"

##@ Maintain
client: $(VENV)/.dev ## Generate the TypeScript client's types from the service, and compile the client; needs Node
	@PYTHONPATH=. $(BIN)/python scripts/typescript_client.py

check-package: $(VENV)/.dev ## Test the wheel, the sdist, each extra and the image's steps in empty environments; takes minutes
	@PYTHONPATH=. $(BIN)/python scripts/check_package.py
	@PYTHONPATH=. $(BIN)/python scripts/check_image.py

lock: ## Renew constraints.txt from pyproject.toml, on the oldest supported Python
	@scripts/lock $(LOCK_PYTHON)

clean: ## Remove the environments, caches and build results
	@for made in "$(VENV)" "$(PEERS)"; do if [ -f "$$made/pyvenv.cfg" ]; then rm -rf "$$made"; fi; done
	@rm -rf build dist benchmarks/.cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

##@ Help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
	    /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The environment is created once; its packages are updated when pyproject.toml or constraints.txt changes.
# An existing environment is used unchanged.
$(VENV)/.made:
	@if [ -x "$(BIN)/python" ] && "$(BIN)/python" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then exit 0; fi; \
	python=; for candidate in $(PYTHONS); do \
	    if $$candidate -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "Python 3.11 or newer is needed; tried: $(PYTHONS). Name one: make PYTHON=/path/to/python3.12 ..." >&2; \
	    exit 1; \
	fi; \
	echo "Making the environment $(VENV) with $$($$python --version) ..."; \
	$$python -m venv "$(VENV)" || { \
	    echo "$$python could not make $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; \
	}
	@touch $@

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing the platform into $(VENV) ..."
	@$(INSTALL) -e '.[local]' || { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing the platform and its HTTP service into $(VENV) (a minute or two the first time) ..."
	@$(INSTALL) -e '.[local,http,console]' || { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $(VENV)/.base $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing the platform and its development tools into $(VENV) ..."
	@$(INSTALL) -e '.[local,documents,http,console,langchain,mcp,docs,dev]' || { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $(VENV)/.base $(VENV)/.serve $@

$(PEERS)/.peers: benchmarks/requirements-peers.txt $(VENV)/.made
	@echo "Installing the systems to compare with into $(PEERS) ..."
	@$(BIN)/python -m venv "$(PEERS)"
	@$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet -r benchmarks/requirements-peers.txt || \
	    { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $@
