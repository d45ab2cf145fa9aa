# The one command list: whatever a person types is a target here, and CI types the same ones.
# A bare machine needs python3 (3.11 or newer, with venv), make and git; everything else goes into .venv. For its
# Node runner it needs Node 20 or newer with npm, and goes without where there is none, except in CI.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
NODE_STAMP := node/node_modules/.installed
MODULES = updater.mjs $(shell find node -name '*.mjs' -not -path '*/node_modules/*')
# What `node --check` says of one module, of all of them in one process.
NODE_SYNTAX := node --no-warnings --experimental-vm-modules -e ' \
  for (const identifier of process.argv.slice(1)) \
    try { new vm.SourceTextModule(fs.readFileSync(identifier, "utf8"), { identifier }); } \
    catch (problem) { console.error(problem.stack); process.exitCode = 1; }'
WORKERS ?= 3  # on two cores: many tests wait for another process
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: help demo test test-long promises lint bench docs site pictures schemas manifests tools up-local down-local pins clean node-packages

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: $(STAMP) ## run everything over real Kansas data, kill it in the middle, resume it; SERVE=1: then open it in a browser
	@$(PY) examples/demo.py

# Each worker of pytest reads all tests. What they are compiled to is kept, and packages are installed, while one processor
# lints and the other is free.
test: $(STAMP) ## lint, then every test that is not marked long
	@$(PY) -m compileall -q src tests  # once, or every command the tests start would do it
	@status=0; $(MAKE) --no-print-directory node-packages & packages=$$!; \
	PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --collect-only -m "not long" >/dev/null 2>&1 & compiled=$$!; \
	$(MAKE) --no-print-directory lint || status=1; \
	wait $$packages || status=1; \
	wait $$compiled; exit $$status
	@$(PYTEST) -m "not long"

test-long: lint node-packages ## lint, then every test of PART=name, or of all parts; what they tried goes into build/promises
	@$(PY) -m compileall -q src tests
	@$(PY) -m tests.project.parts --workers $(WORKERS) $(PART)

promises: $(STAMP) ## take the last runs of make test-long into docs/promises.md, the table of what was tried
	@$(PY) -m tests.project.promises

lint: $(STAMP) ## style, types, who may import whom, and what is banned
	@status=0; \
	$(PY) -m mypy & types=$$!; \
	$(PY) -m ruff check . || status=1; \
	$(PY) -m ruff format --check . || status=1; \
	$(VENV)/bin/lint-imports --no-cache --no-logo || status=1; \
	$(PY) -m tests.project.bans || status=1; \
	if command -v node >/dev/null; then $(NODE_SYNTAX) $(MODULES) || status=1; fi; \
	wait $$types || status=1; \
	exit $$status

bench: $(STAMP) ## measure against peers, into bench/results
	@$(PY) bench/run.py
	@$(PY) bench/decide.py
	@$(PY) bench/masking.py
	@$(PY) bench/ledger.py
	@$(PY) bench/looks.py
	@$(PY) bench/jobs.py
	@$(PY) bench/bucket.py
	@$(PY) bench/retries.py
	@$(PY) bench/items.py
	@$(PY) bench/api.py

docs: $(STAMP) ## check that links lead somewhere and generated files are current
	@$(PY) -m tests.project.pages

site: $(STAMP) ## write the docs as a site that is read without a network, into build/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --clean
	@echo "site: open build/site/index.html"

pictures: $(STAMP) ## take the pictures of the screen in docs/pictures again
	@$(PY) -m tests.project.pictures

schemas: $(STAMP) ## write schemas/ again from the records
	@$(PY) -m tests.project.pages --write

manifests: $(STAMP) ## render deploy/manifests again from the chart, with helm
	@$(PY) -m tests.deploy.manifests

up-local: $(STAMP) ## start Postgres, Redis and SeaweedFS of this machine in build/local, with a kfm.yml that uses them
	@$(PY) -m tools.local up $(LOCAL)

down-local: $(STAMP) ## stop the servers of make up-local; their data stays
	@$(PY) -m tools.local down $(LOCAL)

tools: $(STAMP) ## get what some tests use, once per machine: OPA, Conftest, actionlint, Helm, schemas (needs go), Neo4j (java and mvn), SeaweedFS
	@status=0; for tools in tests.policy.tools tests.app.runners.tools tests.sinks.graph.tools tests.servers.seaweed_program; do $(PY) -m $$tools || status=1; done; exit $$status

pins: $(STAMP) ## resolve requirements/*.txt anew, to the newest versions that fit
	@cd requirements && for name in runtime dev container build; do \
	  CUSTOM_COMPILE_COMMAND="make pins" ../$(VENV)/bin/pip-compile --quiet --upgrade --generate-hashes \
	    --allow-unsafe --strip-extras --annotation-style=line --no-emit-options \
	    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	    --output-file $$name.txt $$name.in || exit 1; \
	done

clean: ## remove everything these commands made, the environment too
	@[ ! -e build/local/ports.json ] || $(PY) -m tools.local down
	rm -rf $(VENV) node/node_modules build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests examples bench -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The environment: hashed pins first, then the project itself with the pinned setuptools, so that
# nothing is fetched that requirements/dev.txt does not name. An environment that works is kept.
$(STAMP): requirements/dev.txt pyproject.toml
	@if ! $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  found=; bare=; \
	  for python in python3 python3.13 python3.12 python3.11; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    if $$python -c 'import venv, ensurepip' 2>/dev/null; then found=$$python; break; fi; \
	    bare=$${bare:-$$python}; \
	  done; \
	  if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	    echo "make: $$bare has no venv module with pip; install it (Debian, Ubuntu: apt-get install python3-venv) and run make again." >&2; exit 1; \
	  elif [ -z "$$found" ]; then \
	    echo "make: KFM needs Python 3.11 or newer, and there is none on the PATH as python3, python3.13, python3.12 or python3.11." >&2; exit 1; \
	  fi; \
	  echo "make: creating $(VENV) with $$($$found -V)"; \
	  $$found -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "make: installing requirements/dev.txt into $(VENV); the first time that takes a minute"
	@$(PY) -m pip install --quiet --no-input --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(PY) -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What the Node runner needs, as node/package-lock.json pins it, with what was built from it kept outside the checkout.
# Where there is no Node its tests are skipped; in CI that is a failure.
NODE_KEY := node -p 'const { createHash } = require("crypto"); createHash("sha256").update([process.version, process.arch, \
  require("fs").readFileSync("node/package-lock.json")].join()).digest("hex")'
NODE_KEPT = $${XDG_CACHE_HOME:-$$HOME/.cache}/kfm/node-packages
node-packages:
	@if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then \
	  found=$$(node --version 2>/dev/null || echo none); \
	  echo "make: the Node runner needs Node 20 or newer; found: $$found" >&2; \
	  [ -z "$$CI" ] || exit 1; \
	elif ! [ $(NODE_STAMP) -nt node/package-lock.json ]; then \
	  echo "make: installing node/package-lock.json into node/node_modules"; \
	  kept="$(NODE_KEPT)/$$($(NODE_KEY))"; \
	  if [ -d "$$kept" ] && rm -rf node/node_modules && cp -r "$$kept" node/node_modules; then touch $(NODE_STAMP); \
	  elif (cd node && npm ci --no-audit --no-fund --loglevel=error); then touch $(NODE_STAMP); \
	    mkdir -p "$(NODE_KEPT)" && cp -r node/node_modules "$$kept.$$$$" && mv -T "$$kept.$$$$" "$$kept" || true; \
	  else \
	    echo "make: npm ci failed; better-sqlite3 comes built, or needs a C++ compiler, make and python3 to be built" >&2; \
	    [ -z "$$CI" ] || exit 1; \
	  fi; \
	fi
