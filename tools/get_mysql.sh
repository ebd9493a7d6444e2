#!/bin/sh
# Unpacks a MySQL 9 server into .cache/mysql, for the tests, and prints the folder. Does nothing else
# when it is there and works. `server` in it starts mysqld.
# Only Debian's unstable suite has it. That suite moves: no version is named here, apt finds what fits
# together, and a day on which nothing does fails this script only.
set -eu
cd "$(dirname "$0")/.."
. tools/server_binaries.inc

works() {
    [ -f "$1/usr/sbin/mysqld.my" ] && [ -f "$1/usr/lib/mysql/plugin/component_keyring_file.so" ] &&
        "$1/server" --no-defaults --version 2>/dev/null | grep -q ' Ver 9\.'
}

# The two small files let each server name its keyring in its own data folder.
unpack() {
    echo "Fetching MySQL ..." >&2
    tools/fetch_debs.sh --with-dependencies mysql-server-core "$1" sid && write_starter "$1" usr/sbin/mysqld || return 1
    echo '{"read_local_config": true}' >"$1/usr/lib/mysql/plugin/component_keyring_file.cnf"
    echo '{"read_local_manifest": true}' >"$1/usr/sbin/mysqld.my"
    chmod 444 "$1/usr/sbin/mysqld.my" # it complains about one that others might change
}

ready_in_cache mysql || {
    echo "Could not fetch MySQL 9 from Debian's sid, which may be in the middle of a change; the tests that start one will fail." >&2
    exit 1
}
