# One command per job. `make` alone lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PORT ?= 8000
UV_VERSION := 0.13.9
PY := .venv/bin/python
UV := .venv/bin/uv
STAMPS := .make

# The first Python that is new enough; pyenv and the like have commands on the path that do not run.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)

# uv must use the environment that it lives in, and never fetch a Python of its own.
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV

.PHONY: help setup demo run test check bench faults browser

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/dev ## Make .venv with everything for work on Hallbook.

demo: $(STAMPS)/run ## Load the demo pod and serve it: make demo PORT=8000.
	$(PY) manage.py demo --serve --port $(PORT)

run: $(STAMPS)/run ## Serve: web, worker and beat in one process group.
	$(PY) manage.py serve --port $(PORT)

test: $(STAMPS)/dev ## Run the tests, but for faults and browser.
	$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

check: $(STAMPS)/dev ## Lint, format, types, import contracts, missing migrations.
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run

bench: $(STAMPS)/dev ## Run all benchmarks; one JSON line each.
	$(PY) manage.py bench --all --json $(ARGS)

faults: $(STAMPS)/dev ## Kill processes and servers, then see that nothing was lost.
	$(PY) -m pytest tests/faults tests/training -m faults $(ARGS)

browser: $(STAMPS)/dev ## Walk through the pages with headless Chromium.
	$(PY) -m pytest tests/browser -m browser $(ARGS)

# ---- the environment: each stamp is newer than what it was made from, so a second run does nothing ----

$(STAMPS)/uv: Makefile
	@test -n "$(PYTHON)" || { echo "Hallbook needs Python 3.11 or newer, and none was found: install python3, or name one with make PYTHON=/path/to/python3." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory python-venv
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@mkdir -p $(STAMPS) && touch $@

# Debian and Ubuntu cut ensurepip out of python3.
.PHONY: python-venv
python-venv:
	@v=$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing $$v, which $(PYTHON) lacks."; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq $$v >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $$v >/dev/null; }; \
	fi; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make environments: install the package python3-venv ($$v on Debian and Ubuntu), then run make again." >&2; exit 2; }

# Where only pip knows the way to a package index (a mirror in pip's settings), pip installs the locked versions by hash.
define install
	@echo "Installing the locked packages into .venv"
	@$(UV) sync --quiet --frozen --inexact $(1) || { \
		$(UV) export --quiet --frozen $(1) -o $(STAMPS)/requirements.txt && \
		$(PY) -m pip install --quiet --require-hashes -r $(STAMPS)/requirements.txt; }
endef

# Pango lays documents out; without it all but PDFs works.
define pango
	@$(PY) -c 'import weasyprint' >/dev/null 2>&1 || { \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing libpangoft2-1.0-0, which PDFs need."; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq --no-install-recommends libpangoft2-1.0-0 >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends libpangoft2-1.0-0 >/dev/null 2>&1; } || true; \
	fi; \
	$(PY) -c 'import weasyprint' >/dev/null 2>&1 || \
		echo "PDFs need Pango, which is missing: install libpangoft2-1.0-0 (Debian, Ubuntu), pango (others). All else works."; }
endef

$(STAMPS)/run: $(STAMPS)/uv pyproject.toml uv.lock
	$(call install,--no-dev)
	$(pango)
	@touch $@

$(STAMPS)/dev: $(STAMPS)/uv pyproject.toml uv.lock
	$(call install,)
	$(pango)
	@touch $@ $(STAMPS)/run
