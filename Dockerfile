# The broker alone: no Spark, no tools of development.
#
#   docker build -t pocketmq .
#   docker run -p 8081:8081 -v pocketmq:/var/lib/pocketmq -e POCKETMQ_ADMIN_SECRET=CHOOSE-ONE pocketmq
#   docker run -p 8081:8081 -v pocketmq:/var/lib/pocketmq -e POCKETMQ_INSECURE=1 pocketmq
#
# Other machines reach its ports. So it serves its users alone, the first of whom is admin, or with POCKETMQ_INSECURE=1 every
# caller. The root may be read-only (--read-only): the broker writes into its volume and nowhere else. docs/howto/containers.md
# has Compose, Kubernetes, CI, and the use in place of RocketMQ's image.

# Any image with python3 of 3.11 or newer, its venv module, groupadd and useradd will do; to build on, the same with a C
# compiler and Python's headers.
ARG BASE=python:3.13-slim
ARG BUILDER=python:3.13

FROM ${BUILDER} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
WORKDIR /src

# What the broker runs on, in an environment without pip; what builds it stays behind in another.
COPY pyproject.toml requirements.lock ./
COPY scripts/core_lock.py scripts/
# Further packages of the lock, such as "opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc" for otel.endpoint.
ARG EXTRAS=
RUN python3 -m venv /opt/tools \
    && python3 -m venv --without-pip /opt/pocketmq \
    && python3 scripts/core_lock.py jinja2 starlette uvicorn $EXTRAS > core.lock \
    && /opt/tools/bin/pip --python /opt/pocketmq/bin/python install -q --no-compile --require-hashes -r core.lock

# The broker itself, compiled, built with what the lock names.
RUN python3 scripts/core_lock.py hatchling mypy setuptools > build.lock \
    && /opt/tools/bin/pip install -q --no-compile --require-hashes -r build.lock
COPY LICENSE README.md ./
COPY scripts/build_hook.py scripts/compile_library.py scripts/compile_modules.py scripts/tidy_source.py scripts/
COPY broker broker
COPY conf/monitoring conf/monitoring
COPY proto proto
# Shown by `pocketmq version`: docker build --build-arg COMMIT=$(git rev-parse HEAD) …
ARG COMMIT=
# 0 builds in half the time, for a trial; the broker is slower then.
ARG OPTIMIZE=3
RUN POCKETMQ_COMMIT=$COMMIT POCKETMQ_COMPILE=1 POCKETMQ_OPTIMIZE=$OPTIMIZE \
    /opt/tools/bin/pip wheel -q --no-deps --no-build-isolation -w dist . \
    && /opt/tools/bin/pip --python /opt/pocketmq/bin/python install -q --no-compile --no-deps dist/*.whl

# What no broker reads is left out.
COPY scripts/slim_image.py scripts/
RUN python3 scripts/slim_image.py slim /opt/pocketmq && cp scripts/slim_image.py /opt/pocketmq/

FROM ${BASE}
# 3000 is the user id of RocketMQ's own image, and /home/rocketmq its home, so that volumes can go from one to the other.
RUN groupadd --gid 3000 pocketmq \
    && useradd --uid 3000 --gid 3000 --no-create-home --home-dir /home/rocketmq \
       --shell /usr/sbin/nologin pocketmq \
    && install -d -o 3000 -g 3000 /var/lib/pocketmq /home/rocketmq /home/rocketmq/store /home/rocketmq/logs
COPY --from=build /opt/pocketmq /opt/pocketmq
COPY conf/image.toml /etc/pocketmq/image.toml
ENV PATH=/opt/pocketmq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    POCKETMQ_IMAGE=pocketmq POCKETMQ_DEFAULTS=/etc/pocketmq/image.toml
# One broker runs, so that the bytecode of what it imports is in the image.
RUN python3 /opt/pocketmq/slim_image.py warm

ARG VERSION=0.2.0
ARG COMMIT=
LABEL org.opencontainers.image.title="PocketMQ" \
      org.opencontainers.image.description="Apache RocketMQ's storage and protocol in one Python process" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"

USER 3000:3000
WORKDIR /var/lib/pocketmq
VOLUME /var/lib/pocketmq
EXPOSE 8081 5557
STOPSIGNAL SIGTERM
# The standard library only: importing grpc would cost a tenth of a second at each check.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; build_opener(ProxyHandler({})).open('http://127.0.0.1:5557/livez', timeout=2)"]
ENTRYPOINT ["pocketmq"]
CMD ["serve"]
