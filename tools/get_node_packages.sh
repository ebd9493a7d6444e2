#!/bin/sh
# tools/get_node_packages.sh FOLDER...: installs what package.json and package-lock.json of these folders of
# tools/ name into .cache/node-packages, and prints where, a line each. Does nothing else when it is there.
#
#     tools/get_node_packages.sh check-dashboards/grafana-10.4
#
# Beside the sources there is never a node_modules: what looks through the checkout would look through that.
# No package's own script runs.
set -eu
cd "$(dirname "$0")/.."
node=$(tools/get_node.sh)
PATH=$node:$PATH
export PATH
# Certificates that pip and others are told of are meant for npm too, which asks for them by another name.
certificates=${NODE_EXTRA_CA_CERTS:-${SSL_CERT_FILE:-${PIP_CERT:-}}}
[ -z "$certificates" ] || export NODE_EXTRA_CA_CERTS="$certificates"

for folder in "$@"; do
    from=tools/$folder
    dest=.cache/node-packages/$folder
    wanted=$({ cat "$from/package.json" "$from/package-lock.json"; node --version; } | cksum)
    if [ "$(cat "$dest/stamp" 2>/dev/null)" != "$wanted" ]; then
        mkdir -p "$(dirname "$dest")"
        exec 9>"$dest.lock"
        flock 9
        if [ "$(cat "$dest/stamp" 2>/dev/null)" != "$wanted" ]; then
            echo "Installing $(grep -c '"integrity"' "$from/package-lock.json") locked packages of $folder ..." >&2
            rm -rf "$dest" "$dest.new"
            mkdir -p "$dest.new"
            cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$dest.new"
            log=$(mktemp)
            (cd "$dest.new" && node "$node/../lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund) >"$log" 2>&1 ||
                { tail -n 15 "$log" >&2; rm -f "$log"; exit 1; }
            rm -f "$log"
            echo "$wanted" >"$dest.new/stamp"
            mv "$dest.new" "$dest"
        fi
        exec 9>&-
    fi
    echo "$PWD/$dest"
done
