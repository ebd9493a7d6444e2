#!/bin/sh
# The quicker tests of the image, on a Docker Engine of their own; `make test-image` runs all of them. Where no engine can
# be started, one line says why; anything else that goes wrong is a failure.
# Fetches the engine and makes a base image first, which takes a minute or two. Needs an environment made by `make setup`.
set -eu
cd "$(dirname "$0")/.."

# Whoever waits for a result waits for the other tests: these are not to be in their way.
renice -n 10 -p $$ >/dev/null

possible=0
why=$(.venv/bin/python -m tests.image.possible) || possible=$?
case $possible in
    0) ;;
    3) echo "The container image is not tested on this machine: $why."; exit 0 ;;
    *) echo "The container image could not be tested: it cannot be told whether a Docker Engine can be started."; exit 1 ;;
esac

# A download that fails for once is tried again.
fetched() { "$@" >/dev/null || { echo "Tries again: $*"; "$@" >/dev/null; }; }
for needed in tools/get_docker.sh tools/get_base_image.sh; do
    fetched "$needed" || { echo "The container image could not be tested: $needed failed."; exit 1; }
done

exec .venv/bin/python -m pytest --numprocesses=0 -m long --durations=5 -p no:cacheprovider tests/image \
    --ignore=tests/image/test_compose_mariadb.py --ignore=tests/image/test_two_builds.py
