#!/bin/sh
# tools/setup.sh run|test: makes .venv ready for that use, from nothing or from any state a killed
# set-up left. Needs sh and Python 3.11 or newer. Says what it does; says nothing when all is done.
set -eu
cd "$(dirname "$0")/.."

use=${1:-run}
case $use in
    run | test) ;;
    *) echo "usage: tools/setup.sh run|test" >&2; exit 2 ;;
esac

say() { printf '%s\n' "$*" >&2; }
die() { say "set-up: $*"; exit 1; }

python=.venv/bin/python
place=$(pwd -P)
unfinished=.cache/setup-unfinished # there while a set-up runs, and after one that was cut short

# What an environment for use $1 depends upon; its stamp holds the same when it is ready.
wanted() {
    "$python" -V 2>/dev/null || echo "no Python"
    { echo "$place"; cat "requirements/$1.txt" requirements/build.txt pyproject.toml; } | cksum
}

ready() { ! [ -e $unfinished ] && [ -e ".venv/.ready-for-$use" ] && [ "$(cat ".venv/.ready-for-$use")" = "$(wanted "$use")" ]; }

# Kept where it can be: not after a set-up that was cut short, and not when it was moved here or its
# Python went away, for it does not work then.
usable() {
    ! [ -e $unfinished ] && "$python" -m pip --version >/dev/null 2>&1 &&
        [ "$(cat .venv/.place 2>/dev/null || echo "$place")" = "$place" ]
}

ready && exit 0

find_python() {
    seen=
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        command -v "$name" >/dev/null 2>&1 || continue
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            found=$name
            return
        fi
        seen=${seen:-$("$name" -V 2>&1 || true)}
    done
    [ -z "$seen" ] || die "$seen is too old. Install Python 3.11 or newer."
    die "python3 is missing. Install Python 3.11 or newer (Debian, Ubuntu: apt-get install python3)."
}

# Two set-ups at once would spoil each other. The lock belongs to the open file: it ends with the last
# process of a set-up, however that ends.
if [ -z "${TDE_SETUP_LOCKED:-}" ]; then
    find_python
    mkdir -p .cache
    export TDE_SETUP_LOCKED=1
    exec "$found" -c '
import fcntl, os, sys
lock = os.open(".cache/setup.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Waiting for another set-up in this folder ...", file=sys.stderr, flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)
os.execv("/bin/sh", ["sh", "tools/setup.sh", sys.argv[1]])
' "$use"
fi
ready && exit 0

make_venv() { "$found" -m venv --clear .venv >"$log" 2>&1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

find_python
if usable; then
    : >$unfinished
else
    : >$unfinished
    say "Making the Python environment .venv ..."
    if ! make_venv; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            say "Installing Debian's python3-venv, which is missing ..."
            export DEBIAN_FRONTEND=noninteractive
            { apt-get -q update && apt-get -qy install --no-install-recommends python3-venv; } >"$log" 2>&1 || {
                tail -n 5 "$log" >&2
                die "apt-get could not install python3-venv. Install it by hand, then start again."
            }
        fi
        make_venv || {
            # This is what Python says where the module is missing; anything else is worth showing.
            grep -q ensurepip "$log" || tail -n 5 "$log" >&2
            die "$found cannot make an environment. Install its venv module (Debian, Ubuntu: apt-get install python3-venv)."
        }
    fi
fi
echo "$place" >.venv/.place

install() {
    "$python" -m pip install -q --disable-pip-version-check --no-input "$@" >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        die "pip could not install the packages. Check the network (proxy, certificates: PIP_INDEX_URL, PIP_CERT) and start again."
    }
}

say "Installing $(grep -c '==' "requirements/$use.txt") locked packages into .venv (downloads about $([ "$use" = run ] && echo 35 || echo 70) MB) ..."
# Wheels only: building from source would need compilers and packages that no lock names.
install --only-binary :all: --require-hashes -r "requirements/$use.txt" -r requirements/build.txt
install --no-build-isolation --no-deps -e .

wanted "$use" >".venv/.ready-for-$use"
# What the tests need is more than what running needs.
[ "$use" = run ] || wanted run >.venv/.ready-for-run
rm -f $unfinished
