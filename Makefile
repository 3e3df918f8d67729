# Every target works on a fresh machine that has Python >= 3.11 and make: uv is installed into .uv if it is missing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: site site-search help setup demo acceptance test test-all floors faults soak lint format bench interoperation docs wheels build clean

# Behind a proxy with a certificate of its own, the system's certificates are the right ones.
export UV_SYSTEM_CERTS ?= 1
# Images often set it; every process would then compile all the libraries that it imports.
unexport PYTHONDONTWRITEBYTECODE
UV := $(shell command -v uv || echo .uv/bin/uv)
# Not `uv run`, which would replace an environment of another Python than that of .python-version.
RUN := env VIRTUAL_ENV="$(CURDIR)/.venv" PATH="$(CURDIR)/.venv/bin:$$PATH"
MINUTES ?= 30
comma := ,
CORES := $(shell getconf _NPROCESSORS_ONLN)
# More than there are cores: many tests wait for processes that they kill, or for queues.
WORKERS ?= $(shell echo $$(($(CORES) + 2)))
PYTEST = $(RUN) pytest --dist=worksteal --durations=10
PRODUCT := $(addprefix tests/unit/,singer_arrow tap_s3_files tap_flight_sql target_bigquery target_redshift)

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.uv/bin/uv:
	@echo "Installing uv into .uv"
	@PYTHON=$$(command -v python3 || command -v python) && "$$PYTHON" -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check uv

setup: $(UV)  ## Install everything into .venv
	@UV="$(UV)" bash .ci/setup
	@$(if $(filter setup,$(MAKECMDGOALS)),echo 'Installed. Next: `make demo` loads files into local warehouses; `make test` runs the tests.'; \
		echo 'The commands are in .venv/bin: export PATH="$$PWD/.venv/bin:$$PATH"',:)

demo: setup  ## Load files from S3 into BigQuery and Redshift on this machine, twice, and check the rows; ARGS=--all shows more
	@$(RUN) local-cloud run --data-dir .demo --fresh --service s3,bigquery,redshift$(if $(findstring --all,$(ARGS)),$(comma)flightsql) --seed -- python -m local_cloud.demo $(ARGS)

acceptance: setup  ## Some sixty scenarios on the accounts that the environment names, else on the local cloud
	@$(RUN) python -m acceptance $(ARGS)

test: setup  ## Unit tests of the connectors and some 50 end-to-end tests, in minutes
	@HYPOTHESIS_PROFILE=quick $(PYTEST) --numprocesses=$$(($(CORES) + 1)) -m 'unit or smoke' $(PRODUCT) tests/integration tests/faults $(ARGS)

test-all: setup  ## Every test but those of make soak, as CI runs them
	@$(PYTEST) --numprocesses=$(WORKERS) $(ARGS)

faults: setup  ## Every fault at every step and request of the tap and both targets; prints the totals
	@PYTHONPATH=tests/support $(RUN) python -m fault_suite $(ARGS)

soak: setup  ## Faults by chance for MINUTES, kills of whole pipelines, large loads; cargo-fuzz where it is
	@PYTHONPATH=tests/support $(RUN) python -m fault_suite --minutes $(MINUTES) $(ARGS)
	@HYPOTHESIS_PROFILE=deep $(RUN) pytest -m '' --numprocesses=2 --dist=worksteal -rP tests/faults/test_kill.py tests/faults/test_kill_sqs.py tests/faults/test_size.py tests/faults/test_stopped.py tests/integration/targets/test_model.py tests/integration/pipelines/test_shards.py tests/integration/tap_s3_files/test_tap_dask_killed.py tests/hostile tests/unit/singer_arrow/formats/json/test_parsers.py
	@if cargo +nightly fuzz --version > /dev/null 2>&1; then cd singer-arrow-json && mkdir -p fuzz/corpus/lines && cargo +nightly fuzz run lines fuzz/corpus/lines fuzz/seeds -- -max_total_time=$$((60 * $(MINUTES))); fi

floors: setup  ## Unit tests with the oldest versions of the dependencies
	@UV="$(UV)" bash .ci/try-floors --numprocesses=$(WORKERS) --dist=worksteal tests/unit/singer_arrow tests/unit/tap_s3_files tests/unit/tap_flight_sql $(ARGS)

lint: setup  ## Format, lint, types, import rules; Rust where it is
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-cache
	@if cargo --version > /dev/null 2>&1; then cd singer-arrow-json && cargo fmt --check && PYO3_BUILD_EXTENSION_MODULE=1 PYO3_NO_PYTHON=1 cargo clippy --quiet --release --locked -- -D warnings; fi

format: setup  ## Format the code
	@$(RUN) ruff format . && $(RUN) ruff check --fix .

bench: setup  ## Side-by-side benchmarks; CASES="name name" chooses
	@$(RUN) python -m benchmarks $(CASES)

site: setup  ## The documentation as a site in build/site, its links checked
	@release=$$($(RUN) python docs/site.py) && $(UV) run --no-project --quiet --with-requirements docs/site-requirements.txt env NO_MKDOCS_2_WARNING=1 RELEASE="$$release" mkdocs build --strict

site-search: site  ## The first pages that a search of the site finds: ARGS='"delete rows" sqs'
	@$(UV) run --no-project --quiet --with-requirements docs/site-requirements.txt python docs/site_search.py $(ARGS)

interoperation: setup  ## Public taps into both targets, the tap into public targets; writes docs/interoperation.md
	@PYTHONPATH=tests/support:. $(RUN) python -m interoperation $(ARGS)

docs: setup  ## Write what is written from the code: settings, plugins, SQL, types, API; figures from the benchmarks
	@$(RUN) python docs/settings_tables.py && $(RUN) python docs/meltano_plugins.py && $(RUN) python docs/redshift_sql.py && $(RUN) python docs/pictures.py && $(RUN) python docs/type_tables.py && $(RUN) python docs/api_page.py && $(RUN) python docs/comparison_sources.py && $(RUN) python -m benchmarks.page

wheels: setup  ## Wheels into dist/
	@rm -rf dist && for p in singer-arrow tap-s3-files tap-flight-sql target-bigquery target-redshift acceptance; do $(UV) build --quiet --wheel --out-dir dist $$p || exit 1; done
	@if cargo --version > /dev/null 2>&1; then $(UV) build --quiet --wheel --out-dir dist singer-arrow-json; fi

build: wheels  ## Wheels, tried in empty environments and by Meltano
	@UV="$(UV)" bash .ci/try-wheels
	@$(RUN) pytest -m soak tests/integration/pipelines/test_meltano.py tests/integration/docs

clean:  ## Remove what was made, and the local BigQuery that was installed outside this folder
	@rm -rf .demo .venv .uv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .meltano "$${XDG_CACHE_HOME:-$$HOME/.cache}/local-cloud"
