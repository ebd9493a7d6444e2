#!/bin/sh
# Formatting, lint and types; shows only what went wrong. Needs an environment made by `make setup`.
set -eu
cd "$(dirname "$0")/.."

step() {
    echo "$1 ..." >&2
    shift
    "$@" || { echo "lint: '$*' found something; mend it, then start again." >&2; exit 1; }
}
step "Formatting" .venv/bin/ruff format --quiet --check .
step "Lint" .venv/bin/ruff check --quiet .
step "Types" .venv/bin/mypy --no-error-summary
