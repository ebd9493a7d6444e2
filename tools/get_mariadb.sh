#!/bin/sh
# tools/get_mariadb.sh 10.11|11.8: unpacks that MariaDB server into .cache/mariadb-SERIES, for the tests,
# and prints the folder. Does nothing else when it is there and works. `server` in it starts mariadbd.
set -eu
cd "$(dirname "$0")/.."
. tools/server_binaries.inc

series=${1:-}
case $series in
    10.11) suite=bookworm ;;
    11.8) suite=trixie ;;
    *) echo "usage: tools/get_mariadb.sh 10.11|11.8" >&2; exit 2 ;;
esac

works() {
    [ -f "$1/usr/lib/mysql/plugin/file_key_management.so" ] && "$1/server" --no-defaults --version 2>/dev/null | grep -qF " $series."
}

# The package with the key plugin depends on much that only an installation needs: it comes alone.
unpack() {
    echo "Fetching MariaDB $series ..." >&2
    tools/fetch_debs.sh --with-dependencies mariadb-server-core "$1" "$suite" mariadb-server && write_starter "$1" usr/sbin/mariadbd
}

ready_in_cache "mariadb-$series" || {
    echo "Could not fetch MariaDB $series from Debian's $suite; the tests that start one will fail." >&2
    exit 1
}
