"""A proxy with nothing to do: small, and asleep."""

import idle
import pytest

SERVICES = 1000
MAX_RESIDENT_MB = 15
WATCHED_S = 10
# The folder of manifests is looked through every 30 s; connections to the API server are looked after.
MAX_TIMERS = 2


@pytest.mark.parametrize("source", idle.SOURCES)
def test_with_1000_services_it_is_small_and_wakes_for_timers_only(source, variant):
    with idle.Idle(source, variant, SERVICES, endpoints=2, sync_period="1h") as proxy:
        wakeups = proxy.wakeups(WATCHED_S)
        memory = proxy.memory_mb()
    print(f"{memory['VmRSS']:.1f} MB resident, {memory['RssAnon']:.1f} MB of it its own; woken in {WATCHED_S} s, by thread: {wakeups}")
    assert sum(wakeups) <= MAX_TIMERS
    if not idle.sanitized():
        assert memory["VmRSS"] <= MAX_RESIDENT_MB
