VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)

.PHONY: help setup run test test-long test-image test-image-quick image lint format lock audit render-dashboards

help:
	@echo "make run        install what is missing and serve, as ./run does"
	@echo "make test       install what the tests need, then all checks and tests, as ./check does; the image's too"
	@echo "make test-long  the tests that take minutes"
	@echo "make test-image the container image on a Docker Engine of its own; needs root, and minutes"
	@echo "make test-image-quick  the same without what takes longest, as in ./check; says why where no engine can be started"
	@echo "make image      build the container image tde-exporter with this machine's docker"
	@echo "make setup      install what is needed to develop and test"
	@echo "make lint       formatting, lint and types only"
	@echo "make format     mend formatting and what the linter can mend"
	@echo "make render-dashboards   draw the dashboards with Grafana's front-end code into .cache/pictures"
	@echo "make audit      ask whether a locked package was withdrawn or has a known weakness; needs the network"
	@echo "make lock       write requirements/*.txt; make lock UPGRADE=--upgrade for the newest packages"

setup:
	@tools/setup.sh test
	@tools/get_test_needs.sh

run:
	@./run

test:
	@./check

# What the suites found out about themselves is kept; python -m benchmarks.figures FILE shows it.
test-long:
	@TDE_TEST_FIGURES=$(CURDIR)/.cache/figures.jsonl ./check --numprocesses=2 -m long

# Fetches the engine, and makes a base image from Debian's packages; nothing of either stays behind but in .cache.
test-image:
	@tools/setup.sh test
	@tools/get_prometheus.sh
	@.venv/bin/python -m pytest --numprocesses=0 -m long tests/image $(PYTEST)

test-image-quick:
	@tools/setup.sh test
	@tools/get_prometheus.sh
	@tools/image_tests.sh

image:
	docker build --tag tde-exporter:$(VERSION) --tag tde-exporter:latest --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null) .

lint: setup
	@tools/lint.sh

format: setup
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

lock: setup
	@tools/lock.sh $(UPGRADE)

audit:
	@tools/audit.sh

render-dashboards: setup
	@.venv/bin/python -m tests.dashboards.drawing .cache/pictures
