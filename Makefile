# Everything a developer runs. `make` alone tells what there is.

VENV ?= .venv
# The first of these that is new enough makes the environment; one that was named is the only one tried.
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
# Pins must fit every supported Python, so they are resolved on the oldest.
LOCK_PYTHON ?= python3.11

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet -c constraints.txt
INSTALL_FAILED := "The installation failed: the reason stands above. 'make clean' and the same command again start afresh."
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help demo test lint types format bench lock clean

##@ Use
demo: $(VENV)/.base ## Search the sample tickets, on a database of its own; nothing to configure
	@$(BIN)/python examples/demo.py

##@ Develop
test: $(VENV)/.dev ## Run every test, on two cores
	@$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.dev ## Check style, formatting, and that imports point down only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: $(VENV)/.dev ## Check types, strictly
	@$(BIN)/mypy

format: $(VENV)/.dev ## Format the code and mend what can be mended by machine
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev ## Measure quality and lexical latency: make bench DATA=folder of the test collections
	@if [ ! -d "$(DATA)/scifact" ]; then echo "Name the folder of the test collections: make bench DATA=..." >&2; exit 1; fi
	@$(BIN)/python benchmarks/quality.py "$(DATA)"
	@$(BIN)/python benchmarks/lexical_latency.py "$(DATA)"

##@ Maintain
lock: ## Renew constraints.txt from pyproject.toml, on the oldest supported Python
	@scripts/lock $(LOCK_PYTHON)

clean: ## Remove the environment, caches and build results
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

##@ Help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
	    /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The environment is made once; what it holds is renewed when pyproject.toml or constraints.txt changes.
$(VENV)/.made:
	@python=; for candidate in $(PYTHONS); do \
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
	@echo "Installing the platform into $(VENV) (a minute or two the first time) ..."
	@$(INSTALL) -e '.[local]' || { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "Installing the platform and its development tools into $(VENV) (a minute or two the first time) ..."
	@$(INSTALL) -e '.[local,dev]' || { echo $(INSTALL_FAILED) >&2; exit 1; }
	@touch $(VENV)/.base $@
