#!/bin/sh
# Fetches a Docker Engine with Compose into .cache/docker, for the tests of the image, and prints the folder.
# Does nothing else when it is there and works. Nothing is installed and nothing started.
# Docker is Debian 13's, which runs on Debian 12 as well; only runc needs the C library of its own suite, so
# the older one is taken, which any of them can use.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/docker

works() {
    { "$1/usr/sbin/dockerd" --version && "$1/usr/bin/containerd" --version && "$1/usr/sbin/runc" --version &&
        "$1/usr/bin/docker-init" --version &&
        "$1/usr/libexec/docker/cli-plugins/docker-compose" version; } >/dev/null 2>&1
}

if ! works $dest; then
    mkdir -p .cache
    exec 9>.cache/docker.lock
    flock 9
    if ! works $dest; then
        echo "Fetching a Docker Engine (about 100 MB) ..." >&2
        rm -rf $dest.new
        tools/fetch_debs.sh $dest.new trixie docker.io docker-cli docker-buildx docker-compose containerd \
            tini iptables libxtables12 libip4tc2 libip6tc2 libnftnl11 libmnl0
        tools/fetch_debs.sh $dest.new bookworm runc
        # These are links that an installation makes, or that lead out of this folder.
        ln -sf tini-static $dest.new/usr/bin/docker-init
        for name in iptables ip6tables; do
            ln -sf xtables-legacy-multi $dest.new/usr/sbin/$name
        done
        works $dest.new || { echo "The Docker Engine of Debian 13 does not run on this machine." >&2; exit 1; }
        rm -rf $dest
        mv $dest.new $dest
    fi
fi
mkdir -p $dest/client
printf '{"cliPluginsExtraDirs": ["%s/%s/usr/libexec/docker/cli-plugins"]}\n' "$PWD" "$dest" >$dest/client/config.json
echo "$PWD/$dest"
