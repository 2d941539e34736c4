# `make` alone says what there is. Each target first makes .venv from the pinned versions; that is
# quick when constraints.txt and pyproject.toml did not change.
#   PYTHON=python3.12   the interpreter to make .venv with (otherwise the newest at hand)
#   DPKIT_DATA=folder   where real data sets lie, for lab, bench and reproduce
#   JOBS=2              processes for the tests
#   SCALE=small         of reproduce: small, reduced or paper
#   MINUTES=25          of gpu: its time; OUT=folder: where it stores; AT_ONCE=4: runs side by side;
#                       ONLY=dpgan: these papers or tables; ESTIMATE=1: the plan alone
#   LAB_FLAGS=...       further options for JupyterLab, such as --port=9999; APP_FLAGS for Voila

PYTHON    ?=
JOBS      ?= 2
LAB_FLAGS ?=
APP_FLAGS ?=
SCALE     ?= small
WHAT      ?= --all --scale $(SCALE)
RUN       := .venv/bin/python
OTHERS    := 3.11 3.12 3.13
FIRST     := notebooks/00_start_here.ipynb

# Tests and stored notebooks never see real data, so that they come out alike everywhere; one
# computing thread per process, because several processes run at once. Matplotlib's list of fonts is
# the environment's own: one left by another may name fonts that are gone, and its warnings differ.
PLAIN     := env -u DPKIT_DATA OMP_NUM_THREADS=1 MPLCONFIGDIR="$(CURDIR)/.venv/matplotlib"
# Whatever folder make is called from, what it starts gets an absolute path.
ABSOLUTE  := import os; print(os.path.abspath(os.path.expanduser(os.environ["DPKIT_DATA"])))
WITH_DATA := if [ -n "$$DPKIT_DATA" ]; then DPKIT_DATA=$$($(RUN) -c '$(ABSOLUTE)'); export DPKIT_DATA; fi
# What must pass where torch is not installed, under newer Pythons, which show what they deprecate; of
# the accountants' tests a part; none of those that read the source or run tools of make alone.
TORCH_FREE := $(wildcard tests/contracts/test_[brw]*.py tests/datasets tests/papers/test_claims.py \
                         tests/commands/test_command_line.py tests/commands/test_ledger_file.py tests/common/test_show.py \
                         tests/course/exercises tests/privacy/test_contracts.py tests/privacy/test_inputs.py)

export PYTHON MAKECMDGOALS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup lab app test slow notebooks students labs slides book measure reproduce readme binder-check wheel-check bench gpu mutants format lint types unit compare portable other-pythons

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv and nothing else
	@.ci/venv .venv test

lab: setup ## open JupyterLab at the first notebook
	@settings=.venv/share/jupyter/lab/settings; mkdir -p $$settings; \
	echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' \
	    >$$settings/overrides.json; \
	flags=; \
	if [ "$$(id -u)" = 0 ]; then flags=--allow-root; fi; \
	if [ "$$(uname)" = Linux ] && [ -z "$$DISPLAY$$WAYLAND_DISPLAY$$BROWSER" ]; then \
	    flags="$$flags --no-browser"; \
	    echo "No display here: open the address below that holds a token in a browser."; \
	fi; \
	if [ -e $(FIRST) ]; then flags="$$flags --LabApp.default_url=/lab/tree/$(FIRST)"; fi; \
	$(WITH_DATA); exec $(RUN) -m jupyterlab $$flags $(LAB_FLAGS)

app: setup ## serve the explorers of notebook 24 as a page without code (Voila)
	@$(RUN) -c 'import voila' 2>/dev/null || \
	    $(RUN) -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[app]"
	@exec $(RUN) -m voila notebooks/24_explorers.ipynb $(APP_FLAGS)

test: lint types unit portable other-pythons ## everything that must pass (a quarter of an hour)
	@echo "All checks passed."

slow: setup ## what make test leaves out: slow tests, notebooks on two more processors, wheel-check
	@$(PLAIN) $(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m slow
	@$(PLAIN) $(RUN) tests/notebooks/compare.py -n $(JOBS)
	@$(PLAIN) $(RUN) tests/notebooks/portable.py avx2 -n $(JOBS)
	@$(RUN) tests/contracts/wheel_check.py

notebooks: setup ## run every notebook without a screen and rewrite its stored outputs
	@$(PLAIN) $(RUN) tests/notebooks/execute.py

students: setup ## write the notebooks without outputs and answers into students/
	@$(PLAIN) $(RUN) tests/notebooks/students.py

labs: setup ## write two labs of 80 minutes and the teacher's page from tagged cells: build/labs/
	@$(PLAIN) $(RUN) tests/notebooks/labs.py

slides: setup ## write a lecture's slides for notebooks 00, 02, 03, 05 and 06: build/slides/
	@$(PLAIN) $(RUN) tests/notebooks/slides.py

book: setup ## build the book of notebooks, docs/ and API, without any request: build/book/index.html
	@$(PLAIN) $(RUN) -m sphinx -b html -c docs/book -q -W --keep-going -j $(JOBS) . build/book
	@echo "build/book/index.html"

measure: setup ## run every notebook and write its time and peak memory into its header and README
	@$(PLAIN) $(RUN) tests/notebooks/measure.py

reproduce: setup ## all tables in minutes, and a report (SCALE=paper: days; WHAT="dp_cgan table_1": one)
	@$(WITH_DATA); $(RUN) -m dpkit reproduce $(WHAT)

# With DEVICE=cuda the python3 at hand is taken, whose torch sees the GPU, and only training is timed.
bench: $(if $(filter cuda,$(DEVICE)),,setup) ## time and memory against plain code and peers (DEVICE=cuda: on a GPU)
	@$(WITH_DATA); DEVICE=$(or $(DEVICE),cpu) PYTHONPATH="$(CURDIR):$(CURDIR)/tests/course/explorers" \
	    $(if $(filter cuda,$(DEVICE)),python3,$(RUN)) tests/benchmarks/bench.py

gpu: ## check, time and use a GPU: MINUTES=25 OUT=folder, ESTIMATE=1: the plan alone (no set-up)
	@export PYTHONPATH="$(CURDIR):$(CURDIR)/tests/benchmarks"; MINUTES=$(MINUTES) OUT="$(OUT)" \
	    ESTIMATE=$(ESTIMATE) ONLY="$(ONLY)" AT_ONCE=$(AT_ONCE) DEVICE=$(DEVICE) \
	    SCALE=$(if $(filter command line environment,$(origin SCALE)),$(SCALE),paper) \
	    exec python3 tests/benchmarks/gpu.py

mutants: setup ## put known faults into the code, one by one: the tests must catch each (minutes)
	@$(PLAIN) $(RUN) tests/contracts/mutants.py

readme: setup ## rewrite README's and docs' tables and pictures and binder/requirements.txt
	@PYTHONPATH="$(CURDIR):$(CURDIR)/tests/audit:$(CURDIR)/tests/notebooks" $(RUN) tests/contracts/readme.py

binder-check: setup ## install binder/ as mybinder.org does, ask the server, run the notebooks
	@$(RUN) tests/contracts/binder_check.py

wheel-check: setup ## install the wheel as a user does and run what README shows (minutes)
	@$(RUN) tests/contracts/wheel_check.py

format: setup ## lay the code out and fix what the linter can
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

lint: setup ## part of test: the linter and the layout
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: setup ## part of test: pyright
	@$(RUN) -m pyright

unit: setup ## part of test: pytest, but for slow tests and the stored values that portable compares
	@$(PLAIN) $(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m "not slow and not stored"

compare: setup ## part of slow: run the notebooks as this processor does, compare with stored outputs
	@$(PLAIN) $(RUN) tests/notebooks/compare.py -n $(JOBS)

portable: setup ## part of test: stored values and notebooks, as a processor without AVX computes them
	@$(PLAIN) $(RUN) tests/notebooks/portable.py no-avx -n $(JOBS)

other-pythons: $(OTHERS:%=python-%) ## part of test: quick torch-free tests under the other Pythons

python-%: setup
	@if [ $* = "$$($(RUN) -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ]; then exit; fi; \
	if python=$$(.ci/find-python $*) && "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    PYTHON=$$python .ci/venv .venv-$* test-core && echo "Python $*, without torch:" && \
	    $(PLAIN) .venv-$*/bin/python -m pytest -q -n $(JOBS) -m "not torch and not slow" $(TORCH_FREE); \
	else echo "No Python $* with venv is at hand: its torch-free tests were skipped."; fi
