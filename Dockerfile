# The broker alone: no Spark, no tools of development.
#
#   docker build -t pocketmq .
#   docker run --rm -v pocketmq:/var/lib/pocketmq --entrypoint pocketmq pocketmq user add admin --admin --store /var/lib/pocketmq
#   docker run -p 8081:8081 -p 5557:5557 -v pocketmq:/var/lib/pocketmq pocketmq
#
# Others reach its ports, so it serves its users alone: the second line makes the first of them. docs/howto/access.md has other ways.
# The root may be read-only (--read-only): the broker writes into its volume and nowhere else.

# Any image with python3 of 3.11 or newer, its venv module, groupadd and useradd will do; to build on, the same with a C
# compiler and Python's headers.
ARG BASE=python:3.13-slim
ARG BUILDER=python:3.13

FROM ${BUILDER} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /src

# What the broker runs on, in an environment without pip; what builds it stays behind in another.
COPY pyproject.toml requirements.lock ./
COPY scripts/core_lock.py scripts/
RUN python3 -m venv /opt/tools \
    && python3 -m venv --without-pip /opt/pocketmq \
    && python3 scripts/core_lock.py > core.lock \
    && /opt/tools/bin/pip --python /opt/pocketmq/bin/python install -q --require-hashes -r core.lock

# The broker itself, compiled, built with what the lock names.
RUN python3 scripts/core_lock.py hatchling mypy setuptools > build.lock \
    && /opt/tools/bin/pip install -q --no-compile --require-hashes -r build.lock
COPY LICENSE README.md ./
COPY scripts/build_hook.py scripts/compile_library.py scripts/compile_modules.py scripts/tidy_source.py scripts/
COPY broker broker
COPY proto proto
# Shown by `pocketmq version`: docker build --build-arg COMMIT=$(git rev-parse HEAD) …
ARG COMMIT=
RUN POCKETMQ_COMMIT=$COMMIT POCKETMQ_COMPILE=1 /opt/tools/bin/pip wheel -q --no-deps --no-build-isolation -w dist . \
    && /opt/tools/bin/pip --python /opt/pocketmq/bin/python install -q --no-deps dist/*.whl

FROM ${BASE}
# 3000 is the user id of RocketMQ's own image, so that a volume can go from one to the other.
RUN groupadd --gid 3000 pocketmq \
    && useradd --uid 3000 --gid 3000 --no-create-home --home-dir /var/lib/pocketmq \
       --shell /usr/sbin/nologin pocketmq \
    && install -d -o 3000 -g 3000 /var/lib/pocketmq
COPY --from=build /opt/pocketmq /opt/pocketmq
ENV PATH=/opt/pocketmq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

USER 3000:3000
WORKDIR /var/lib/pocketmq
VOLUME /var/lib/pocketmq
EXPOSE 8081 5557
STOPSIGNAL SIGTERM
# The standard library only: importing grpc would cost a tenth of a second at each check.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:5557/livez', timeout=2)"]
ENTRYPOINT ["pocketmq", "serve", "--store", "/var/lib/pocketmq", "--listen", "0.0.0.0:8081", "--http", "0.0.0.0:5557"]
