#!/bin/sh
# Fetches into .cache all that the tests need and no environment holds: servers, and programs that check. Says what it
# fetches, and nothing when all is there. Needs an environment made by tools/setup.sh test.
set -eu
cd "$(dirname "$0")/.."

tools/get_prometheus.sh
tools/get_faketime.sh >/dev/null
tools/get_deploy_checks.sh >/dev/null
tools/get_systemd.sh >/dev/null
tools/get_mariadb.sh 10.11 >/dev/null
tools/get_mariadb.sh 11.8 >/dev/null
# From a suite that moves: without it, only the tests that start it fail, and say so.
tools/get_mysql.sh >/dev/null || true
tools/get_node_packages.sh check-dashboards/grafana-10.4 check-dashboards/grafana-13.2 >/dev/null
