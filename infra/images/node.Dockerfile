# A node of the Ray cluster: head or worker, with (gpu) or without (cpu) CUDA. Both come from one
# lock file, since Ray needs the same Python and Ray on all nodes. Build from the repository's root:
#   docker build -f infra/images/node.Dockerfile --target cpu -t rnnsweep:cpu .
#   docker build -f infra/images/node.Dockerfile --target gpu -t rnnsweep:gpu .
FROM python:3.11-slim AS base
# rsync and ssh are for Ray's cluster launcher, wget for KubeRay's probes, openssl for certificates.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openssh-client openssl rsync wget \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 --shell /bin/bash ray
# Without the token (RAY_AUTH_TOKEN or ~/.ray/auth_token) no part of a cluster starts or answers.
ENV RAY_AUTH_MODE=token \
    RAY_worker_niceness=0 \
    RAY_USAGE_STATS_ENABLED=0 \
    RNNSWEEP_HOME=/home/ray/rnnsweep-data \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
COPY infra/tls/certificates.sh /usr/local/bin/
WORKDIR /build
COPY requirements-cluster.lock requirements-backends.txt infra/images/node.txt ./

FROM base AS gpu
# These packages bring CUDA. The machine needs the driver (for CUDA 12.9: 525 or newer).
# PyTorch is built for CUDA 13, and its cuDNN replaces TensorFlow's, so it needs an image of its own:
#   --build-arg GPU_BACKENDS="torch jax[cuda13]"
ARG GPU_BACKENDS="tensorflow[and-cuda] jax[cuda12]"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN pip install -r requirements-cluster.lock -r node.txt ${GPU_BACKENDS} -c requirements-backends.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY orchestrator orchestrator
COPY workloads workloads
COPY rnnsweep ./rnnsweep/
COPY sweeps ./sweeps/
RUN pip install --no-deps . && install -d -o ray -g ray /home/ray/rnnsweep-data
USER ray
WORKDIR /home/ray

FROM base AS cpu
# "jax torch" adds PyTorch, with some GB of CUDA that it does not use here. To avoid them, give pip an
# index of CPU builds: --build-arg PIP_EXTRA_INDEX_URL=…
ARG CPU_BACKENDS="jax"
ARG PIP_EXTRA_INDEX_URL=""
RUN pip install -r requirements-cluster.lock -r node.txt ${CPU_BACKENDS} -c requirements-backends.txt
# For `rnnsweep run` on a node. The code that `rnnsweep submit` sends takes precedence over it.
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY orchestrator orchestrator
COPY workloads workloads
COPY rnnsweep ./rnnsweep/
COPY sweeps ./sweeps/
RUN pip install --no-deps . && install -d -o ray -g ray /home/ray/rnnsweep-data
USER ray
WORKDIR /home/ray
