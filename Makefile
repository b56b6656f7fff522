# Each goal makes .venv and installs what it needs; the second time it only runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: help quickstart test test-fast check attack bench docs dist clean

help:
	@echo "make quickstart   which representation is worth its cost? answered on a sample, in a few minutes"
	@echo "make test         everything that has to hold: style, types, imports, unit, parity, faults, docs"
	@echo "make test-fast    quick unit tests and one contract per model, for daily work"
	@echo "make check        style and types only"
	@echo "make attack       hostile models, vectors, texts and requests for an hour (MINUTES=60); run again, it goes on"
	@echo "make docs         the documentation in English and Chinese as a site in build/site, strictly, without a network"
	@echo "make dist         wheels and source packages of firth and firth-runtime in dist/, tried in empty environments"
	@echo "make bench        what the benchmarks need; then run one of benchmarks/*.py"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its exact version: an open range would fetch gigabytes of other builds
$(VENV)/.torch: constraints.txt | $(VENV)/bin/python
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	@touch $@

$(VENV)/.samples: $(SOURCES) | $(VENV)/.torch
	$(PIP) --editable '.[samples,serve]'
	@touch $@

$(VENV)/.test: $(SOURCES) | $(VENV)/.torch
	$(PIP) --editable '.[test,samples]'
	@touch $@

$(VENV)/.docs: $(SOURCES) | $(VENV)/.torch
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: $(SOURCES) | $(VENV)/.torch
	$(PIP) --editable '.[bench,samples]'
	@touch $@

quickstart: $(VENV)/.samples
	@$(BIN)/firth quickstart

check: $(VENV)/.test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy

# the page is tested in a real browser: the system's, or Debian's package where there is none
$(VENV)/.browser: | $(VENV)/bin/python
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet chromium; } \
	|| { echo "make test needs Chromium: install it with your system's package manager"; exit 2; }
	@touch $@

test: check $(VENV)/.browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --fast

MINUTES ?= 60
attack: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/attack.py build/attack --minutes $(MINUTES)

bench: $(VENV)/.bench
	@ls benchmarks/*.py

docs: $(VENV)/.docs
	$(BIN)/python docs/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# built from the files in git, then installed where nothing else is, and used without the repository; firth-runtime too
dist: | $(VENV)/bin/python
	$(PIP) build
	rm -rf dist build/smoke build/runtime && mkdir -p build/smoke
	$(BIN)/python -m build --quiet --outdir dist .
	$(PYTHON) packaging/runtime.py build/runtime
	$(BIN)/python -m build --quiet --outdir dist build/runtime
	$(PYTHON) -m venv build/smoke/.venv && $(PYTHON) -m venv build/smoke/.runtime
	build/smoke/.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    "$$(grep '^torch==' constraints.txt)" onnx onnxruntime dist/firth-*.whl
	build/smoke/.runtime/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    dist/firth_runtime-*.whl
	cd build/smoke && ../../tests/smoke.sh .venv/bin/firth .runtime/bin/firth
	@ls -l dist

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
