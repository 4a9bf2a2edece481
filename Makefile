# Needs only Python 3.11+ and make. Every target makes .venv and installs what it uses; a stamp file
# a set of packages makes the second run quick. With CUDA: make demo CUDA=cuda12 (or cuda13).
PYTHON ?= python3
VENV ?= .venv
CUDA ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
comma := ,

.PHONY: demo info test oracle lint bench nightly clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook demo

info: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook info

test: $(VENV)/.test
	$(BIN)/python -m pytest -q

# Differential tests against PyTorch; they skip in `make test` where torch is missing.
oracle: $(VENV)/.test $(VENV)/.oracle
	$(BIN)/python -m pytest -q tests/oracle
	$(BIN)/python tests/oracle_run.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench $(VENV)/.oracle
	$(BIN)/python -m bench

# Everything, also what is too slow for .ci/run.
nightly: $(VENV)/.test $(VENV)/.oracle
	$(BIN)/python -m pytest -q -m "nightly or not nightly"
	$(BIN)/python tests/oracle_run.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'gradhook needs \
	Python 3.11 or newer, found ' + sys.version.split()[0] + '; try: make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)

# .demo, .test, .dev, .bench, .oracle: the extra of that name; .democuda12: two extras.
$(VENV)/.demo$(CUDA): EXTRAS = demo$(if $(CUDA),$(comma)$(CUDA))
$(VENV)/.test: EXTRAS = test,demo
$(VENV)/.dev: EXTRAS = dev
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.oracle: EXTRAS = oracle
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[$(EXTRAS)]"
	@touch $@
