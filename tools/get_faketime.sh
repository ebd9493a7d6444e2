#!/bin/sh
# Fetches libfaketime into .cache/faketime, for the tests that step the wall clock of a process. Prints
# the path of the library. Does nothing else when it is there.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/faketime

library() { find "$1" -name libfaketime.so.1 2>/dev/null | head -n 1; }
works() { [ "$(LD_PRELOAD="$(library "$1")" FAKETIME='2001-02-03 12:00:00' date +%Y 2>/dev/null)" = 2001 ]; }

if ! works $dest; then
    echo "Fetching libfaketime ..." >&2
    for suite in bookworm trixie sid none; do
        rm -rf $dest.new
        [ $suite != none ] || { echo "Could not fetch libfaketime. Install the package faketime, then start again." >&2; exit 1; }
        if tools/fetch_debs.sh $dest.new $suite libfaketime && works $dest.new; then
            rm -rf $dest
            mv $dest.new $dest
            break
        fi
    done
fi
echo "$(pwd)/$(library $dest)"
