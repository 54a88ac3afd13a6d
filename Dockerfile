# The server in a container: docker build -t omnigraph-server:local .
# The second stage has no compiler, no pip cache and no shell tools beyond the base's own.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-venv ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
RUN python3 -m venv /opt/omnigraph
# Pinned and hashed; these change less often than the package, so the layer is kept.
COPY requirements-server.lock ./
RUN /opt/omnigraph/bin/python -m pip install --no-cache-dir --no-compile \
      --require-hashes --requirement requirements-server.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/omnigraph/bin/python -m pip install --no-cache-dir --no-deps . \
 && /opt/omnigraph/bin/python -m pip uninstall --yes pip

FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 10001 omnigraph \
 && useradd --system --uid 10001 --gid omnigraph --create-home \
      --home-dir /var/lib/omnigraph --shell /usr/sbin/nologin omnigraph
COPY --from=build /opt/omnigraph /opt/omnigraph
COPY --chmod=755 deploy/entrypoint.sh /usr/local/bin/omnigraph-entrypoint
COPY --chmod=755 deploy/healthcheck.py /usr/local/bin/omnigraph-healthcheck
ENV PATH=/opt/omnigraph/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    OMNIGRAPH_BIND=0.0.0.0:8080
USER 10001:10001
WORKDIR /var/lib/omnigraph
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 \
  CMD ["python", "/usr/local/bin/omnigraph-healthcheck"]
ENTRYPOINT ["/usr/local/bin/omnigraph-entrypoint"]
