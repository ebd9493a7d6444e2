#!/bin/sh
# The tests of the image within ./check, on machines that can run a Docker Engine. On others, one line says why they
# are not run; what is wrong with the image is a failure everywhere else.
#     tools/image_tests.sh prepare   fetches the engine and makes the base image; takes minutes, may run beside others
#     tools/image_tests.sh run       all but what takes longest: `make test-image` runs that too
set -eu
cd "$(dirname "$0")/.."
reason=.cache/image/not-here

not_here() { echo "The container image is not tested on this machine: $*" >&2; exit 0; }

case ${1:-} in
    prepare)
        mkdir -p .cache/image
        : >$reason.new
        if [ "$(id -u)" != 0 ]; then
            echo "a Docker Engine needs root" >$reason.new
        else
            { tools/get_docker.sh && tools/get_base_image.sh; } >/dev/null 2>.cache/image/log ||
                { tail -n 1 .cache/image/log; echo "(.cache/image/log has the rest)"; } >$reason.new
        fi
        mv $reason.new $reason
        ;;
    run)
        [ -e $reason ] || not_here "what it needs was not fetched"
        ! [ -s $reason ] || not_here "$(tr '\n' ' ' <$reason)"
        why=$(.venv/bin/python -m tests.image.engine) || not_here "no Docker Engine can be started: $why"
        echo "Running the tests of the image ..." >&2
        exec .venv/bin/python -m pytest --numprocesses=0 -m long --durations=5 tests/image \
            --ignore=tests/image/test_compose_mariadb.py --ignore=tests/image/test_two_builds.py
        ;;
    *) echo "usage: tools/image_tests.sh prepare|run" >&2; exit 2 ;;
esac
