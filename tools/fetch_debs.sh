#!/bin/sh
# tools/fetch_debs.sh [--with-dependencies PACKAGE]... DEST SUITE [PACKAGE...]: unpacks Debian packages
# of a suite into the folder DEST.
# Uses the archive that this machine's apt already uses and checks its signatures, but keeps lists and
# caches of its own: nothing of the system is changed, and root is not needed. Packages that the suite
# does not have are left out; those asked for with dependencies must be there, and bring all that they
# need to run on a machine of another suite, the C library and its loader included.
set -eu
whole=
while [ "${1:-}" = --with-dependencies ]; do
    whole="$whole $2"
    shift 2
done
dest=$1 suite=$2
shift 2

keys=/usr/share/keyrings/debian-archive-keyring.gpg
for need in apt-get dpkg "$keys"; do
    command -v "$need" >/dev/null 2>&1 || [ -r "$need" ] || { echo "fetch_debs: $need is missing; this needs a Debian machine" >&2; exit 1; }
done
# shellcheck disable=SC2016 # apt expands it
archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
[ -n "$archive" ] || { echo "fetch_debs: apt knows no archive; look into /etc/apt/sources.list" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$dest"
: >"$work/status"
echo "deb [signed-by=$keys] $archive $suite main" >"$work/sources.list"

# Check-Valid-Until: a mirror that stands still, as snapshots do, is good enough for a test's tools.
# Sandbox::User: apt started by root would download as a user who cannot enter the private folder.
apt() {
    apt-get -qq -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status" -o Dir::Cache="$work/cache" \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Retries=2 -o Acquire::Check-Valid-Until=false "$@"
}

# Nothing is installed: with an empty status, and no lock of the system, apt only works out what is
# needed and brings it.
install() {
    # shellcheck disable=SC2086 # package names
    apt -o APT::Install-Recommends=false -o Debug::NoLocking=true "$@" --yes --download-only install $whole
}

# Otherwise an archive that cannot be reached counts as an update, of nothing.
apt -o APT::Update::Error-Mode=any update >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&2; exit 1; }
if [ -n "$whole" ]; then
    install --print-uris >"$work/wanted" 2>"$work/log" || { tail -n 3 "$work/log" >&2; exit 1; }
    awk -v suite="$suite" '{ bytes += $3 } END { printf "Downloading %d packages of %s, %.0f MB ...\n", NR, suite, bytes / 1e6 }' "$work/wanted" >&2
    install >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&2; exit 1; }
    mv "$work"/cache/archives/*.deb "$work/debs"
fi
for package in "$@"; do
    (cd "$work/debs" && apt download "$package" >>"$work/log" 2>&1) || true
done
for deb in "$work"/debs/*.deb; do
    [ -e "$deb" ] || { tail -n 3 "$work/log" >&2; exit 1; }
    dpkg -x "$deb" "$dest"
done
