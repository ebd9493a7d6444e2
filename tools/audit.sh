#!/bin/sh
# Says whether a locked package was withdrawn by its makers, or has a known weakness; exit code 0 only when all were
# asked about and none has. tools/audit.sh withdrawn: only the first question, which any index or mirror can answer.
# The second one takes the public data of PyPI or of OSV: TDE_AUDIT_SERVICE=pypi|osv (osv unless told otherwise).
# Needs a Python with venv; installs nothing but pip-audit, into .cache/audit.
set -eu
cd "$(dirname "$0")/.."

python=.cache/audit/bin/python
out=.cache/audit/said
fail() { printf 'audit: %s\n' "$*" >&2; exit 1; }

if ! [ -x .cache/audit/bin/pip-audit ] || ! cmp -s requirements/audit.txt .cache/audit/installed; then
    python3 -m venv --clear .cache/audit
    "$python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements/audit.txt
    cp requirements/audit.txt .cache/audit/installed
fi

# Resolved as for an installation, hashes included: a file that was exchanged or removed fails as well.
for lock in run test build lock audit; do
    if ! "$python" -m pip install --disable-pip-version-check --dry-run --ignore-installed --no-deps --only-binary :all: \
        --require-hashes -r "requirements/$lock.txt" >"$out" 2>&1; then
        cat "$out" >&2
        fail "requirements/$lock.txt cannot be installed as it is locked"
    fi
    if grep -i yanked "$out" >&2; then
        fail "requirements/$lock.txt names what its makers have withdrawn; run make lock UPGRADE=--upgrade"
    fi
done
echo "No locked package was withdrawn." >&2
[ "${1:-all}" = withdrawn ] && exit 0

service=${TDE_AUDIT_SERVICE:-osv}
for lock in run test build lock audit; do
    # Strict: what could not be asked about is not sound.
    if ! .cache/audit/bin/pip-audit --strict --progress-spinner off --vulnerability-service "$service" \
        --disable-pip --require-hashes -r "requirements/$lock.txt" >"$out" 2>&1; then
        tail -n 20 "$out" >&2
        fail "requirements/$lock.txt has known weaknesses, or $service could not be asked about them: see above"
    fi
done
echo "No locked package has a weakness that $service knows." >&2
