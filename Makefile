.PHONY: help setup run test test-long lint format lock

help:
	@echo "make run        install what is missing and serve, as ./run does"
	@echo "make test       install what the tests need, then all checks and tests, as ./check does"
	@echo "make test-long  the tests that take minutes"
	@echo "make setup      install what is needed to develop and test"
	@echo "make lint       formatting, lint and types only"
	@echo "make format     mend formatting and what the linter can mend"
	@echo "make lock       write requirements/*.txt; make lock UPGRADE=--upgrade for the newest packages"

setup:
	@tools/setup.sh test
	@tools/get_prometheus.sh
	@tools/get_faketime.sh >/dev/null
	@tools/get_mariadb.sh 10.11 >/dev/null
	@tools/get_mariadb.sh 11.8 >/dev/null
	@tools/get_mysql.sh >/dev/null || true
	@tools/get_node_packages.sh check-dashboards/grafana-10.4 check-dashboards/grafana-13.2 >/dev/null

run:
	@./run

test:
	@./check

test-long:
	@./check -m long

lint: setup
	@tools/lint.sh

format: setup
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

lock: setup
	@tools/lock.sh $(UPGRADE)
