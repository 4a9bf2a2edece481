# Needs only Python 3.11+ and make. Every target makes .venv and installs what it uses; a stamp file
# a set of packages makes the second run quick. With CUDA: make demo CUDA=cuda12 (or cuda13).
PYTHON ?= python3
VENV ?= .venv
CUDA ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
comma := ,

.PHONY: demo info test test-device oracle lint lint-container container bench nightly clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook demo

info: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook info

test: $(VENV)/.test
	$(BIN)/python -m pytest -q

# The tests with their tensors on a CUDA device: a GPU if there is one, else the CPU test device
# (tests/cpudevice; needs g++). In an environment of its own, so that `make test` shows that nothing
# needs CuPy. Not run: what starts other processes or is about packages.
test-device: $(VENV)-device/.test-device
	$(VENV)-device/bin/python -m pytest -q --device cuda -n auto $(DEVICE_TESTS)
	$(call LATE_AND_REVERSED,tests/device tests/test_kernels.py)

# On the CPU test device: work runs as late as it may, threads of a block in reverse.
LATE_AND_REVERSED = CPUDEVICE_DEFERRED=1 CPUDEVICE_REVERSE=1 $(VENV)-device/bin/python -m pytest -q \
	--device cuda -n auto $(1)

DEVICE_TESTS ?= tests --ignore tests/oracle --ignore tests/test_demo.py \
	--ignore tests/test_packaging.py --ignore tests/test_bench.py

$(VENV)-device/.test-device: pyproject.toml
	$(PYTHON) -m venv $(VENV)-device
	$(VENV)-device/bin/python -m pip install --quiet --disable-pip-version-check \
	--editable ".[test,bench,device]"
	@touch $@

# Registers and spills of every kernel, compiled for sm_80, sm_90 and sm_120; needs no GPU.
# `make test-device` holds the gate itself, tests/nvrtc.
nvrtc: $(VENV)-device/.test-device
	cd tests && ../$(VENV)-device/bin/python -m nvrtc

# Differential tests against PyTorch; they skip in `make test` where torch is missing.
oracle: $(VENV)/.test $(VENV)/.oracle
	$(BIN)/python -m pytest -q tests/oracle
	$(BIN)/python tests/oracle_run.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The Dockerfile, by hadolint (a binary in a wheel).
lint-container: $(VENV)/.container
	$(BIN)/hadolint Dockerfile

# Builds the image and runs its benchmarks with docker, podman or buildah, whichever works here.
container:
	container/build_and_run.sh

bench: $(VENV)/.bench $(VENV)/.oracle
	$(BIN)/python -m bench

# Everything, also what is too slow for .ci/run.
nightly: $(VENV)/.test $(VENV)/.oracle $(VENV)-device/.test-device
	$(call LATE_AND_REVERSED,$(DEVICE_TESTS) -k "not million")  # a million launches in wait are memory
	$(BIN)/python -m pytest -q -m "nightly or not nightly"
	$(BIN)/python tests/oracle_run.py

clean:
	rm -rf $(VENV) $(VENV)-device build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'gradhook needs \
	Python 3.11 or newer, found ' + sys.version.split()[0] + '; try: make PYTHON=python3.12')"
	$(PYTHON) -m venv $(VENV)

# .demo, .test, .dev, .bench, .oracle, .container: the extra of that name; .democuda12: two extras.
$(VENV)/.demo$(CUDA): EXTRAS = demo$(if $(CUDA),$(comma)$(CUDA))
$(VENV)/.test: EXTRAS = test,demo
$(VENV)/.dev: EXTRAS = dev
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.oracle: EXTRAS = oracle
$(VENV)/.container: EXTRAS = container
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[$(EXTRAS)]"
	@touch $@
