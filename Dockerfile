# The benchmark suite in a container: README.md, "Benchmarks in a container".
#
#   docker build -t gradhook-bench .
#   mkdir -p out && docker run --gpus all -v "$PWD/out:/out" gradhook-bench
#
# BASE_IMAGE: any Debian or Ubuntu whose python3 is 3.11 or newer. CuPy's toolkit extra brings the
# CUDA libraries, so an nvidia/cuda *base* image is enough, and the driver comes from the host.
ARG BASE_IMAGE=nvidia/cuda:12.9.1-base-ubuntu24.04

FROM ${BASE_IMAGE} AS build
ENV DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# BASE_IMAGE may be Debian or Ubuntu of any release: a pinned version would exist in one only.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/venv
# Empty: an image without CuPy, which can only run the CPU suite.
ARG CUPY=cupy-cuda12x[ctk]>=14,<15
RUN if [ -n "${CUPY}" ]; then /opt/venv/bin/pip install "${CUPY}"; fi
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY kernels kernels
COPY gradhook gradhook
RUN /opt/venv/bin/pip install ".[bench]"

FROM ${BASE_IMAGE}
ENV DEBIAN_FRONTEND=noninteractive
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir /out \
    && chown 1000:1000 /out
COPY --from=build /opt/venv /opt/venv
COPY bench /opt/gradhook/bench
# Any `--user` works: only /tmp and /out are written to. The driver's share of the GPU is asked for
# as NVIDIA's base images do, for a BASE_IMAGE that does not.
ENV GRADHOOK_BENCH=/opt/gradhook/bench \
    PYTHONPATH=/opt/gradhook \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    CUPY_CACHE_DIR=/tmp/cupy \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/venv/bin:$PATH
WORKDIR /tmp
USER 1000:1000
ENTRYPOINT ["gradhook", "bench", "--out", "/out"]
