# `make demo` and `make test` set up what they need: a virtual environment in $(VENV), made at first use.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test check bench docs clean

demo: $(READY)
	$(BIN)/python examples/demo.py --out demo

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow"

bench: $(READY)
	$(BIN)/python benchmarks/attribution.py --out benchmarks/results

docs: $(READY)
	$(BIN)/python docs/build.py

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
