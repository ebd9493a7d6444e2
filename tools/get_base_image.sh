#!/bin/sh
# Makes a stand-in for the image python:3.13-slim-trixie, for machines that reach no registry, and prints
# the path of a tar for `docker import`: Debian 13 with its own Python 3.13 and pip, at the places where the
# official image has them. Does nothing else when it is there. Needs root, for chroot.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/image/python-3.13-slim-trixie.tar

if ! [ -f $dest ]; then
    [ "$(id -u)" = 0 ] || { echo "get_base_image: needs root, for chroot" >&2; exit 1; }
    mkdir -p .cache/image
    exec 9>.cache/image/lock
    flock 9
fi
if ! [ -f $dest ]; then
    top=$(mktemp -d)
    trap 'rm -rf --one-file-system "$top"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    echo "Making a base image of Debian 13, once ..." >&2
    tools/fetch_debs.sh "$top/debootstrap" trixie debootstrap
    # shellcheck disable=SC2016 # apt expands it
    archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
    # What it mounts is seen by itself only, and gone with it.
    DEBOOTSTRAP_DIR="$top/debootstrap/usr/share/debootstrap" unshare --mount "$top/debootstrap/usr/sbin/debootstrap" --variant=minbase \
        --include=ca-certificates,netbase,python3,python3-pip,python3-venv,tzdata trixie "$top/made" "$archive" >"$top/log" 2>&1 ||
        { tail -n 20 "$top/log" >&2; exit 1; }
    rm -rf "$top"/made/var/cache/apt/archives/*.deb "$top"/made/var/lib/apt/lists/* "$top"/made/usr/lib/python3*/EXTERNALLY-MANAGED
    ln -s /usr/bin/python3 "$top/made/usr/local/bin/python3"
    ln -s /usr/bin/python3 "$top/made/usr/local/bin/python"
    ln -s /usr/bin/pip3 "$top/made/usr/local/bin/pip"
    # A build shall trust whom this machine trusts, for example the proxy in front of its package index.
    certificates=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
    ! [ -r "$certificates" ] || cat "$certificates" >"$top/made/etc/ssl/certs/ca-certificates.crt"
    tar -C "$top/made" -cf $dest.new .
    mv $dest.new $dest
fi
echo "$PWD/$dest"
