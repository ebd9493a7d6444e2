import itertools
import threading
import time

from exporter.probing.turnstile import Turnstile


def test_turns_do_not_overlap_and_nobody_is_contended_when_they_are_short():
    turnstile = Turnstile(longest_wait=30.0)
    inside: list[None] = []
    most: list[int] = []
    contended: list[bool] = []

    def pass_through():
        for _ in range(200):
            with turnstile.turn() as turn:
                inside.append(None)
                most.append(len(inside))
                inside.pop()
                contended.append(turn.contended)

    threads = [threading.Thread(target=pass_through) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(most) == 1
    assert contended == [False] * 800


def test_a_hung_holder_does_not_block_others_but_marks_them():
    turnstile = Turnstile(longest_wait=0.01)
    with turnstile.turn() as hung, turnstile.turn() as other:
        assert not hung.contended
        assert other.contended
    with turnstile.turn() as later:
        assert not later.contended


def test_a_turn_that_never_ends_stops_counting_as_one():
    """One hung call would spoil every short measurement of the process, for ever."""
    turnstile = Turnstile(longest_wait=0.01, longest_turn=0.05)
    hung = turnstile.turn()
    hung.__enter__()
    spoiled = 0
    while True:
        with turnstile.turn() as turn:
            if not turn.contended:
                break
        spoiled += 1
        assert spoiled < 1000

    assert spoiled >= 1
    with turnstile.turn() as inside, turnstile.turn() as other:
        assert (inside.contended, other.contended) == (False, True)
    hung.__exit__(None, None, None)
    with turnstile.turn() as turn:
        assert not turn.contended


def test_the_sections_of_a_tick_follow_each_other():
    """Were it only the sections that take turns, each would wait for one of every other tick: too long, where these are many."""
    turnstile = Turnstile(longest_wait=30.0, longest_queue=30.0)
    order: list[int] = []

    def tick(number):
        with turnstile.bout():
            for _ in range(20):
                with turnstile.turn():
                    order.append(number)
                    time.sleep(0.0005)

    threads = [threading.Thread(target=tick, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [number for number, _ in itertools.groupby(order)] == list(dict.fromkeys(order))
    assert len(order) == 16 * 20


def test_who_has_waited_long_enough_for_another_tick_begins_all_the_same():
    turnstile = Turnstile(longest_queue=0.01)
    with turnstile.bout(), turnstile.bout(), turnstile.turn() as turn:
        assert not turn.contended
    with turnstile.bout():
        assert turnstile.door.locked()
    assert not turnstile.door.locked()


def test_a_tick_that_waits_for_its_server_is_not_waited_for():
    turnstile = Turnstile(longest_wait=0.01, longest_turn=0.05, longest_queue=600.0)
    with turnstile.bout(), turnstile.turn():
        with turnstile.bout():
            assert turnstile.door.locked()
        assert not turnstile.door.locked()
    with turnstile.bout():
        assert turnstile.door.locked()
