#!/bin/sh
# Prints the path of systemd-analyze, for the tests of the units. Where this machine has none, unpacks Debian's
# into .cache/systemd; nothing is installed or started.
set -eu
cd "$(dirname "$0")/.."
dest=.cache/systemd

if command -v systemd-analyze; then
    exit 0
fi
# Also after this folder was moved.
if ! $dest/systemd-analyze --version >/dev/null 2>&1; then
    echo "Fetching systemd ..." >&2
    rm -rf $dest $dest.new
    tools/fetch_debs.sh $dest.new bookworm systemd libsystemd-shared libkmod2 libip4tc2 libapparmor1 libcryptsetup12 \
        libfdisk1 libseccomp2 libdevmapper1.02.1 libjson-c5
    # shellcheck disable=SC2016 # for the script to expand
    printf '#!/bin/sh\nlib=%s/usr/lib/x86_64-linux-gnu\nLD_LIBRARY_PATH=$lib/systemd:$lib exec %s/usr/bin/systemd-analyze "$@"\n' \
        "$PWD/$dest" "$PWD/$dest" >$dest.new/systemd-analyze
    chmod +x $dest.new/systemd-analyze
    mv $dest.new $dest
    $dest/systemd-analyze --version >/dev/null
fi
echo "$PWD/$dest/systemd-analyze"
