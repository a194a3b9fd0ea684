# Everything a newcomer needs: `make run` and `make test`. Both set up what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 4
STAMP := .setup-stamp
# Without bytecode every process that a test starts would compile the host again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE
LAUNCHER := $(wildcard launcher/*.c launcher/*.h launcher/seccomp/*.toml launcher/seccomp/*.py)
COMPILED := $(patsubst %,plugins/echo-%/bin/echo,mcptest-c mcptest-go mcptest-rust rune-c rune-go rune-rust)
PACKAGES := acme-devkit thread-weave
VENDORED := $(patsubst %,plugins/%/lib/plughost_sdk/__init__.py,$(PACKAGES))
# The files with a test marked `serial`: collecting all others would take longer than running these.
SERIAL = $(shell grep -rl --include='*.py' 'mark[.]serial' tests)
NOTES_TS := plugins/notes-ts
REGISTRY := .tools/usr/bin/docker-registry
NODE_PEER := benchmarks/peers/mcp_typescript
GO_PEER := benchmarks/peers/go_plugin
ON_POSTGRESQL := $(patsubst %,tests/vai/invocations/test_%.py,hooks runtime harness chaos gateway_api) tests/gateway
PEERS := .venv-peers/ok .venv-fastmcp/ok .venv-pygls/ok .venv-pylsp/ok .venv-plot/ok \
  $(NODE_PEER)/node_modules/.package-lock.json $(GO_PEER)/bin/host

.PHONY: run check test e2e lint soak mutants surface tables bench bench-peers packages setup lock clean

run: setup ## start the example plugins, call them, kill one, show what the host did
	@$(BIN)/python -m plughost.cli.commands.tour

check: lint ## lint, types, layers, and the tests that start no process: under a minute
	$(BIN)/python -m pytest -n $(WORKERS) tests/unit

test: setup ## all tests: side by side, then those that need a quiet machine, one on each of two cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak and not serial" --ignore tests/e2e
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "serial and not soak" $(SERIAL)

e2e: setup ## what a newcomer does: from a built wheel, as an ordinary user, outside /tmp, by the documents
	$(BIN)/python -m pytest tests/e2e
	PLUGHOST_TEST_DATABASE=postgresql $(BIN)/python -m pytest -n $(WORKERS) $(ON_POSTGRESQL)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict sdk/python/src/plughost_sdk
	$(BIN)/lint-imports

soak: setup ## longer kills, chaos and fuzzing
	$(BIN)/python -m pytest -m soak

mutants: setup ## break the host in a hundred small ways; a test must notice each
	$(BIN)/python -m tests.mutants

surface: setup ## record ainb's wire surface anew, after a change that is meant
	$(BIN)/python -m plughost.conformance.ainb.wire_surface
	git diff --stat -- src/plughost/conformance/ainb/wire-surface.lock

tables: setup ## write the tables of the documentation that come out of the code
	$(BIN)/python -m tests.support.settings_table
	$(BIN)/python -m tests.support.errors_table
	$(BIN)/python -m tests.support.gateway_tables

bench: setup .venv-peers/ok .venv-procrastinate/ok benchmarks/bin/echo ## ratios against the raw pipe and peers
	$(BIN)/python -m benchmarks

bench-peers: setup benchmarks/bin/echo ## side by side with every peer, into docs/benchmarks.md; QUICK=1 takes two minutes
	-@$(MAKE) --no-print-directory --keep-going $(PEERS) # who cannot be installed is left out
	$(BIN)/python -m benchmarks.side_by_side $(if $(QUICK),--quick)

packages: setup ## the first-party vai packages, each with the SDK in it, as dist/*.vai.tar
	@mkdir -p dist
	@for each in $(PACKAGES); do $(BIN)/plughost pack plugins/$$each --out dist || exit 1; done

plugins/%/lib/plughost_sdk/__init__.py: $(wildcard sdk/python/src/plughost_sdk/*.py sdk/python/src/plughost_sdk/vai/*.py) | $(STAMP)
	@rm -rf $(@D)
	@PYTHONPATH=sdk/python/src $(BIN)/python -m plughost_sdk.vai vendor plugins/$* >/dev/null
	@touch $@

setup: $(STAMP) $(COMPILED) $(VENDORED) $(NOTES_TS)/bin/main.js $(REGISTRY)

$(STAMP): requirements/dev.txt pyproject.toml sdk/python/pyproject.toml setup.py $(LAUNCHER)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "plughost needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "missing: the venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@command -v cc >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq gcc libc6-dev; } || \
	  echo "note: no C compiler; the Python launcher serves, and the C examples are left out"
	@[ "$$(uname)" != Linux ] || command -v bwrap >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq bubblewrap; } || \
	  echo "note: bubblewrap is missing, so plugins cannot run in the sandbox class strict (Debian: apt-get install bubblewrap)"
	@command -v tmux >/dev/null && test -e /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq tmux fonts-dejavu-core; } || \
	  echo "note: tests of screens in a terminal need tmux and DejaVu Sans Mono (Debian: apt-get install tmux fonts-dejavu-core)"
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq postgresql-common && \
	    mkdir -p /etc/postgresql-common/createcluster.d && \
	    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/plughost.conf && \
	    apt-get install -y -qq postgresql; } || \
	  echo "note: tests against PostgreSQL need its server (Debian: apt-get install postgresql)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@rm -rf src/*.egg-info # of an earlier build: its entry points would be found first
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable . --editable sdk/python
	@touch $(STAMP)

plugins/%/bin/echo: plugins/%/echo.c plugins/json_text.h
	@mkdir -p $(@D)
	@if command -v cc >/dev/null; then cc -O2 -Wall -Wextra -o $@ $<; else echo "skipped $@: no C compiler"; fi

plugins/%/bin/echo: plugins/%/echo.go
	@mkdir -p $(@D)
	@if command -v go >/dev/null; then go build -o $@ $<; else echo "skipped $@: no Go"; fi

plugins/%/bin/echo: plugins/%/echo.rs plugins/json_text.rs
	@mkdir -p $(@D)
	@if command -v rustc >/dev/null; then rustc --edition 2021 -O -o $@ $<; else echo "skipped $@: no Rust"; fi

# Also what checks its types; bun comes along, so that tests run the source under it, too.
$(NOTES_TS)/bin/main.js: $(wildcard $(NOTES_TS)/src/*.ts) $(NOTES_TS)/tsconfig.json $(NOTES_TS)/package-lock.json
	@if ! command -v npm >/dev/null; then echo "skipped $@: no Node with npm"; \
	elif ! $(MAKE) -s $(NOTES_TS)/node_modules/.package-lock.json; then echo "skipped $@: npm ci failed"; \
	else cd $(NOTES_TS) && node_modules/.bin/tsc && touch bin/main.js; fi

# Debian's package, unpacked beside us: installed, it would start a server of its own.
$(REGISTRY):
	@mkdir -p .tools
	@cd .tools && { apt-get download -qq docker-registry 2>/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get download -qq docker-registry; } } && \
	  dpkg -x docker-registry_*.deb . && rm -f docker-registry_*.deb || \
	  echo "note: tests against an OCI registry need Debian's docker-registry package"

benchmarks/bin/echo: benchmarks/plugins/echo.c
	@mkdir -p $(@D)
	cc -O2 -Wall -Wextra -o $@ $<

.venv-%/ok: requirements/%.txt
	@rm -f $@
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@

$(GO_PEER)/bin/host: $(wildcard $(GO_PEER)/go.* $(GO_PEER)/*/*.go)
	@rm -rf $(@D)
	cd $(GO_PEER) && go build -trimpath -o bin/ ./host ./plugin

lock: ## resolve the dependencies anew
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/python -m pip install --quiet uv
	for set in runtime dev peers procrastinate fastmcp pygls pylsp plot; do .venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --no-annotate requirements/$$set.in -o requirements/$$set.txt; done
	rm -rf .venv-lock
	for folder in $(NODE_PEER) $(NOTES_TS); do (cd $$folder && npm update --package-lock-only --no-audit --no-fund); done
	cd $(GO_PEER) && go get github.com/hashicorp/go-plugin@latest && go mod tidy

clean:
	rm -rf $(VENV) .venv-* $(NODE_PEER)/node_modules $(NOTES_TS)/node_modules $(GO_PEER)/bin $(STAMP) build dist plugins/echo-mcptest-*/bin plugins/echo-rune-*/bin $(NOTES_TS)/bin benchmarks/bin plugins/*/lib/plughost_sdk .tools src/*.egg-info \
	  src/plughost/engine/launcher/plughost-launcher src/plughost/engine/launcher/plughost-inner launcher/seccomp/filters.h
