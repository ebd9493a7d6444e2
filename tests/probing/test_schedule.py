import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

from exporter.probing.schedule import Schedule, phase


def test_the_phase_is_the_same_in_every_process_and_spread_over_the_interval():
    phases = [phase(f"target-{number}", 10.0) for number in range(200)]
    code = "from exporter.probing.schedule import phase; print(repr(phase('target-7', 10.0)))"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert elsewhere.strip() == repr(phases[7])
    assert all(0.0 <= value < 10.0 for value in phases)
    assert {int(value) for value in phases} == set(range(10))


@pytest.fixture
def schedule():
    schedule = Schedule()
    yield schedule
    schedule.stop()


def test_jobs_run_and_their_lateness_is_handed_out_once(schedule):
    ran = threading.Event()
    times: list[None] = []

    def job():
        times.append(None)
        if len(times) == 3:
            ran.set()

    schedule.every(1.0, "orders", "canary", job, missed=lambda runs: None)
    schedule.start()

    assert ran.wait(100.0)
    assert len(schedule.take_lateness()) >= 2
    assert schedule.take_lateness() == ()


def test_runs_that_came_too_late_are_counted_and_not_made_up_for(schedule):
    missed: list[int] = []
    ran: list[float] = []
    again = threading.Event()

    def block():
        ran.append(time.monotonic())
        if len(ran) == 1:
            threading.Event().wait(3.5)
        else:
            again.set()

    schedule.every(1.0, "orders", "canary", block, missed=missed.append)
    schedule.start()

    assert again.wait(100.0)
    first, second, *_ = ran
    # Of those that were due between the two, each was counted, and none was run.
    assert second - first >= 3.5
    assert 2 <= sum(missed) <= second - first


def test_realigning_plans_every_job_once(schedule):
    ran = threading.Event()
    schedule.every(1.0, "orders", "canary", ran.set, missed=lambda runs: None)
    schedule.start()
    for _ in range(5):
        schedule.realign()

    assert len(schedule.planned()) == 1
    assert ran.wait(100.0)


def test_a_job_that_was_planned_by_a_wrong_clock_is_astray_until_it_is_planned_anew(schedule):
    ran = threading.Event()
    schedule.every(1.0, "orders", "canary", ran.set, missed=lambda runs: None)
    schedule.every(1.0, "billing", "canary", lambda: None, missed=lambda runs: None)
    schedule.start()
    assert not schedule.astray()

    # What a clock leaves behind that was an hour ahead for a moment.
    (job,) = (job for job in schedule._scheduler.get_jobs() if job.id == "orders/canary")
    job.modify(next_run_time=job.next_run_time + timedelta(hours=1))
    ran.clear()
    assert schedule.astray()
    schedule.realign()

    assert not schedule.astray()
    assert ran.wait(100.0)
