from __future__ import annotations

import uuid

from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.machine import Machine


def test_time_passes_by_sleeping_only() -> None:
    simulated = SimulatedMachine(time=100.0)
    machine = simulated.machine
    assert (machine.now(), machine.now(), machine.monotonic()) == (100.0, 100.0, 100.0)
    machine.sleep(2.5)
    assert machine.now() == machine.monotonic() == 102.5
    simulated.time = 7.0
    assert machine.now() == 7.0


def test_chance_is_that_of_the_seed() -> None:
    first, same, other = (SimulatedMachine(seed).machine for seed in (1, 1, 2))
    drawn = [(m.new_uuid(), m.random(), m.randbits(31)) for m in (first, same, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert first.new_uuid() != first.new_uuid()


def test_nothing_happens_in_the_background() -> None:
    simulated, calls = SimulatedMachine(), []
    begun = simulated.machine.repeat(lambda: bool(calls.append(1)), 30.0)
    simulated.machine.sleep(10_000)
    assert not calls
    assert not simulated.repeated[0].call()
    assert (calls, simulated.repeated[0].interval_s) == ([1], 30.0)
    begun.stop()
    assert simulated.repeated[0].stopped


def test_a_machine_has_chance_of_its_own() -> None:
    machine = Machine()
    assert uuid.UUID(machine.new_uuid()).version == 4
    assert machine.new_uuid() != machine.new_uuid()
    assert all(0 <= machine.random() < 1 for _ in range(100))
