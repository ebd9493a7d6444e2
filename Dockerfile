# tde-exporter in a container. Everything is installed from the hashes of requirements/*.txt.
#
#     docker build --tag tde-exporter .
#     docker run --read-only --cap-drop ALL --security-opt no-new-privileges \
#         --publish 127.0.0.1:10161:10161 --volume tde-state:/var/lib/tde-exporter tde-exporter
#
# Another registry's Python: --build-arg PYTHON_IMAGE=registry.example/python:3.13-slim-trixie
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
# What seldom changes comes first, so that a change of our own code installs nothing anew.
COPY requirements/run.txt requirements/build.txt requirements/
RUN python -m venv /build \
    && /build/bin/pip install --quiet --only-binary :all: --require-hashes --requirement requirements/build.txt \
    && python -m venv --without-pip /opt/tde-exporter \
    && /build/bin/pip --python /opt/tde-exporter/bin/python install --quiet --no-compile --only-binary :all: \
        --require-hashes --requirement requirements/run.txt \
    # Packages bring their tests along, a tenth of what they weigh.
    && find /opt/tde-exporter/lib -type d -name tests -prune -exec rm -r {} +
COPY . .
# Byte code is made now, for the root file system is read-only later. It is taken as it is, without a look at
# times of files, and with one seed for hashes: so it is the same in every build.
RUN /build/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir /wheel . \
    && /build/bin/pip --python /opt/tde-exporter/bin/python install --quiet --no-compile --no-deps --no-index /wheel/*.whl \
    && PYTHONHASHSEED=0 /opt/tde-exporter/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/tde-exporter/lib \
    && mkdir /state

FROM ${PYTHON_IMAGE}
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="tde-exporter" \
    org.opencontainers.image.description="Prometheus exporter that measures what Transparent Data Encryption costs" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
# In a container, loopback is the container's own. The exporter says once that it asks nobody who he is, if it
# does not. Address and port of a configuration file are overridden here: publish another port instead.
ENV PATH=/opt/tde-exporter/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    TDE_EXPORTER_STATE_DIRECTORY=/var/lib/tde-exporter \
    TDE_EXPORTER_WEB__LISTEN_ADDRESS=0.0.0.0 \
    TDE_EXPORTER_WEB__PORT=10161
COPY --from=build /opt/tde-exporter /opt/tde-exporter
COPY deploy/image/healthy.py /usr/local/bin/tde-exporter-healthy
COPY deploy/image/first.py /usr/local/bin/tde-exporter-first
# A new volume takes over who owns this folder.
COPY --from=build --chown=65532:65532 /state /var/lib/tde-exporter
USER 65532:65532
VOLUME /var/lib/tde-exporter
EXPOSE 10161
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["tde-exporter-healthy"]
ENTRYPOINT ["tde-exporter-first", "tde-exporter"]
CMD ["run"]
