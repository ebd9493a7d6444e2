#!/bin/sh
# Fetches Prometheus, promtool and Alertmanager into .cache/prometheus, for the tests; the newest that
# runs on this machine. Into .cache/prometheus-oldest it fetches the oldest ones that the alert rules
# are written for (2.42 and 0.25, of Debian 12). Does nothing when they are there.
# Debian's Alertmanager looks for its templates in /usr/share/prometheus/alertmanager at start;
# tests/alerts/alertmanager.py starts it without.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/prometheus
oldest=.cache/prometheus-oldest

works() {
    "$1/usr/bin/promtool" --version && "$1/usr/bin/prometheus" --version && "$1/usr/bin/prometheus-alertmanager" --version
} >/dev/null 2>&1

if ! works $oldest; then
    echo "Fetching the oldest supported Prometheus and Alertmanager (about 50 MB) ..." >&2
    rm -rf $oldest.new
    if tools/fetch_debs.sh $oldest.new bookworm prometheus prometheus-alertmanager; then
        rm -rf $oldest
        mv $oldest.new $oldest
    else
        echo "Could not fetch them; the tests that need them will fail, and say so." >&2
    fi
fi

works $dest && exit 0
echo "Fetching Prometheus, promtool and Alertmanager (about 70 MB) ..." >&2
# From the newest suite to the oldest that has them: a newer one may need a newer C library than this machine's.
for suite in sid trixie bookworm; do
    rm -rf $dest.new
    if tools/fetch_debs.sh $dest.new $suite prometheus promtool prometheus-alertmanager && works $dest.new; then
        rm -rf $dest
        mv $dest.new $dest
        exit 0
    fi
done
rm -rf $dest.new
if command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; then
    echo "Could not fetch them; the tests use those on PATH." >&2
    exit 0
fi
echo "Could not fetch Prometheus. Install prometheus and promtool so that they are on PATH, then start again." >&2
exit 1
