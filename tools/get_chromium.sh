#!/bin/sh
# Prints where a Chromium is, for tools/render-dashboards: the one on PATH, else Debian's, unpacked with all that it
# needs into .cache/chromium. It starts itself again for each page, so that it takes its libraries from there but the
# machine's own loader: that one must be of the same suite. Elsewhere, install chromium.
set -eu
cd "$(dirname "$0")/.."
. tools/server_binaries.inc

for name in chromium chromium-browser google-chrome; do
    if command -v "$name"; then exit 0; fi
done

works() { "$1/chromium" --headless --no-sandbox --version >/dev/null 2>&1; }

unpack() {
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    echo "Fetching Chromium ..." >&2
    tools/fetch_debs.sh --with-dependencies chromium --with-dependencies fonts-dejavu-core "$1" "$suite" || return 1
    cat >"$1/chromium" <<'STARTER'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
for folder in "$here"/lib/*-linux-gnu "$here"/usr/lib/*-linux-gnu "$here"/usr/lib/*-linux-gnu/pulseaudio; do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
# Its fonts, beside which the machine may have none.
printf '<fontconfig><dir>%s/usr/share/fonts</dir><cachedir>%s/fonts</cachedir></fontconfig>' "$here" "$here" >"$here/fonts.conf.$$"
mv "$here/fonts.conf.$$" "$here/fonts.conf"
export LD_LIBRARY_PATH FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/usr/lib/chromium/chromium" "$@"
STARTER
    chmod +x "$1/chromium"
}

dest=$(ready_in_cache chromium) || { echo "Could not fetch Chromium. Install chromium so that it is on PATH." >&2; exit 1; }
echo "$dest/chromium"
