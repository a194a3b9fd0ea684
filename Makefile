# Everything a newcomer needs: `make run` and `make test`. Both set up what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := .setup-stamp
C_PLUGINS := plugins/echo-mcptest-c/bin/echo plugins/echo-rune-c/bin/echo

.PHONY: run test lint check soak bench setup lock clean

run: setup ## start the example plugins, call them, kill one, show what the host did
	@$(BIN)/python -m plughost.tour

test: setup lint ## everything a change must pass
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: setup ## longer kills, chaos and fuzzing
	$(BIN)/python -m pytest -m soak

bench: setup .venv-peers/ok benchmarks/bin/echo ## ratios against the raw pipe and peers
	$(BIN)/python -m benchmarks

setup: $(STAMP) $(C_PLUGINS)

$(STAMP): requirements/dev.txt pyproject.toml setup.py launcher/plughost-launcher.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "plughost needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "missing: the venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@command -v cc >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq gcc libc6-dev; } || \
	  echo "note: no C compiler; the Python launcher serves, and the C examples are left out"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $(STAMP)

plugins/%/bin/echo: plugins/%/echo.c plugins/json_text.h
	@mkdir -p $(@D)
	@if command -v cc >/dev/null; then cc -O2 -Wall -Wextra -o $@ $<; else echo "skipped $@: no C compiler"; fi

benchmarks/bin/echo: benchmarks/plugins/echo.c
	@mkdir -p $(@D)
	cc -O2 -Wall -Wextra -o $@ $<

.venv-peers/ok: requirements/peers.txt
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/peers.txt
	@touch $@

lock: ## resolve the dependencies anew
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/python -m pip install --quiet uv
	for set in runtime dev peers; do .venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate requirements/$$set.in -o requirements/$$set.txt; done
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) .venv-peers $(STAMP) build dist plugins/*/bin benchmarks/bin src/*.egg-info src/plughost/runtime/plughost-launcher
