#!/bin/sh
# tools/fresh_machine.sh [--keep] COMMAND...: runs a command in the last commit of this checkout on a
# bare Debian 12 that has Python and nothing else, in a chroot.
#
#     tools/fresh_machine.sh ./run --help
#     tools/fresh_machine.sh ./check
#
# Needs root, debootstrap, git and room for 1 GB below TMPDIR. The system is made once and kept in
# .cache/fresh; --keep keeps the machine and says where. The network, the loopback ports and the
# certificates (PIP_CERT, SSL_CERT_FILE) are those of this machine.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm

keep=
[ "${1:-}" != --keep ] || { keep=1; shift; }
[ $# -gt 0 ] || { echo "usage: tools/fresh_machine.sh [--keep] COMMAND..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "fresh_machine: needs root, for chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh_machine: install debootstrap first" >&2; exit 1; }

base=$here/.cache/fresh/$suite.tar
top=$(mktemp -d)
clean() {
    for mounted in dev/shm dev/pts dev proc; do
        umount -l "$top/$mounted" 2>/dev/null || true
    done
    # Never reaches into something that is still mounted.
    [ -n "$keep" ] || rm -rf --one-file-system "$top"
}
trap clean EXIT
trap 'exit 130' INT TERM

if ! [ -f "$base" ]; then
    echo "Making a bare Debian ($suite), once ..." >&2
    # shellcheck disable=SC2016 # apt expands it
    archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
    mkdir -p "${base%/*}"
    debootstrap --variant=minbase --include=python3-minimal,python3,ca-certificates "$suite" "$top/made" "$archive" >"$top/log" 2>&1 ||
        { tail -n 20 "$top/log" >&2; exit 1; }
    rm -rf "$top"/made/var/cache/apt/archives/*.deb "$top"/made/var/lib/apt/lists/*
    tar -C "$top/made" -cf "$base.new" .
    mv "$base.new" "$base"
    rm -rf "$top/made" "$top/log"
fi

tar -C "$top" -xf "$base"
mount -t proc proc "$top/proc"
mount --bind /dev "$top/dev"
mount --bind /dev/pts "$top/dev/pts"
mkdir -p "$top/dev/shm"
mountpoint -q "$top/dev/shm" || mount -t tmpfs tmpfs "$top/dev/shm"
cp -L /etc/resolv.conf /etc/hosts "$top/etc/"

git clone -q --no-hardlinks "$here" "$top/srv/tde-exporter"
certificates=${PIP_CERT:-${SSL_CERT_FILE:-}}
if [ -n "$certificates" ]; then
    cp -L "$certificates" "$top/etc/ssl/certs/of-the-host.crt"
    certificates=/etc/ssl/certs/of-the-host.crt
fi

[ -z "$keep" ] || echo "The machine is kept in $top" >&2
echo "On a bare Debian: $*" >&2
chroot "$top" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root TERM="${TERM:-dumb}" \
    ${certificates:+PIP_CERT="$certificates" SSL_CERT_FILE="$certificates"} \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
    sh -c 'cd /srv/tde-exporter && exec "$@"' sh "$@"
