# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON  ?= python3
TORCH   ?= newest
PYTHONS ?= 3.10 3.11 3.12 3.13
VENV    ?= .venv
BIN     := $(VENV)/bin
JOBS    ?= $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2)
KERNEL  := setup.py $(wildcard src/backsight/recording/statistics/*.[ch])

.PHONY: demo test test-all accept device lint scripts docs bench programs package matrix coverage setup clean

setup: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml constraints.txt $(KERNEL)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint,bench,docs]'
	@touch $@

demo: setup
	@$(BIN)/backsight demo

test: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# With what takes minutes: the reader of runs under ten minutes of mutated recordings, a run of a million steps, a faulty
# function at every turn, an extension in C++, and all of that of which `make test` takes a sample: PyTorch's operators,
# ways by ways, and what hypothesis makes up. And every program that `make test` forks is a process of its own.
test-all: setup
	FORKS=0 TESTS=all $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "long or not long"

# What is said of each failing script in tests/failures: shows what has changed, and accepts it. NAMES="no_grad" for some.
accept: setup
	@OMP_NUM_THREADS=1 $(BIN)/python tests/failures/accept.py $(NAMES)

# What has to be tried on a GPU; BACKSIGHT_DEVICE=cpu make device rehearses it on the CPU. TESTS="-k recording" for some.
device: setup
	$(BIN)/python -m pytest -p no:xdist -m device tests/device $(TESTS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --persona=auditor .github

# The scripts and styles of our pages, formatted and checked; needs node and the npm registry. FIX=--write mends them.
scripts:
	npx --yes @biomejs/biome@2.6.8 check $(FIX) .

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

bench: setup
	$(BIN)/python bench/performance.py
	@echo "kept in bench/results; $(BIN)/python docs/pages.py puts them into docs/performance.md"

# Trainings through libraries that others wrote, in build/programs: the package index, 4 GB and an hour.
programs: setup
	$(BIN)/python bench/performance.py programs
	@echo "kept in bench/results; $(BIN)/python docs/pages.py puts it into docs/programs.md"

# The wheel and the sdist, in dist/, each tried in an empty environment with the newest PyTorch for each of PYTHONS.
package: setup
	$(BIN)/python tests/matrix/newest.py
	rm -rf build dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tests/packaging/in_an_empty_environment.py dist $(foreach python,$(PYTHONS),--python $(python))

# Another PyTorch, another Python, in an environment that is made and removed: make matrix TORCH=2.15.0 PYTHON=3.12
# ONLY="demo broken" or ROOMS="tape naming" for a part of it; FAILED=1 for what failed there before; KEEP=1 keeps the environment; WITH="numpy<2.3" adds to it.
matrix:
	@python3 tests/matrix/matrix.py --torch '$(TORCH)' --python '$(PYTHON)' --jobs $(JOBS) $(if $(KEEP),--keep) \
	  $(if $(FAILED),--failed) \
	  $(if $(ONLY),--only '$(ONLY)') $(if $(ROOMS),--rooms '$(ROOMS)') $(if $(WITH),--with '$(WITH)')

# How much of a room its own tests run: make coverage PYTHON=python3.13 VENV=.venv-3.13 ROOMS="tape naming"
coverage: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'pytest-cov>=7'
	$(BIN)/python tests/coverage_by_room.py $(ROOMS)

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache src/backsight/recording/statistics/*.so
