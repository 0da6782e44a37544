"""Decides what runs, in which order, and what is left out. Values in, values out."""

import dataclasses
import math
import os

from ci import table

TURN_UNTIL_S = 60 * int(os.environ.get("KP_CI_UNTIL", "55"))  # what runs in turn is to be over then
GO_UNTIL_S = 30 * 60  # later, no Go build begins
END_S = 85 * 60  # a stage that still runs is ended, so that the report is written in time
BATCH_S = 5 * 60  # suites in turn begin in batches of about that; after each the clock is looked at again


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the history tells."""

    changed: frozenset  # files changed since suites were last recorded; None: not known
    ages: dict  # suite: commits since it last passed; a suite that is not there has never passed
    commits: int  # how many there are, or any number that is another one at the next commit


@dataclasses.dataclass
class Plan:
    run: list  # rows, in this order
    left_out: dict  # suite: why


def in_turn(rows, facts, elapsed, slowness=1.0, cold=False):
    """The plan for rows of class turn, at this second of the run, on a machine that takes `slowness` times as long as the table
    says, and whose caches are cold or not."""
    plan, clock = Plan([], {}), elapsed
    for row in order(rows, facts):
        cost = (row.cold if cold else row.warm) * slowness
        if clock + cost <= TURN_UNTIL_S:
            plan.run.append(row)
            clock += cost if row.runs_alone else cost / table.TOGETHER
        else:
            plan.left_out[row.suite] = f"about {minutes(cost)}, which do not fit before minute {TURN_UNTIL_S // 60}"
    return plan


def order(rows, facts):
    """What the change has touched first, then what has not passed for longest. Each commit begins elsewhere among equals."""
    start = _start(len(rows), facts.commits)

    def place(numbered):
        number, row = numbered
        touched = row.is_touched(facts.changed)
        return (not touched, -facts.ages.get(row.suite, math.inf), (number - start) % len(rows))

    return [row for _, row in sorted(enumerate(rows), key=place)]


def _start(count, commits):
    """Which of `count` rows is first: far from where the commits before began, and each is first as often as the others."""
    step = next((step for step in range(max(1, count * 2 // 5), count) if math.gcd(step, count) == 1), 1)
    return commits * step % count if count else 0


def stages(rows):
    """Rows that follow each other and run with one ctest are one stage; a target of the Makefile is one by itself."""
    found = []
    for row in rows:
        if found and _go_together(found[-1][-1], row):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _go_together(one, other):
    return not one.is_target and not other.is_target and one.runs_alone == other.runs_alone


def batch(run):
    """The first stage of a plan, cut where it becomes long."""
    chosen = []
    for row in stages(run)[0]:
        if chosen and table.seconds([*chosen, row]) > BATCH_S:
            break
        chosen.append(row)
    return chosen


def slowness(done):
    """How much longer than the table says it has taken so far: done is [(rows, seconds)] of stages of tests."""
    expected = sum(table.seconds(rows) for rows, _ in done)
    measured = sum(took for _, took in done)
    return min(5.0, max(0.5, measured / expected)) if expected else 1.0


def minutes(seconds):
    count = max(1, math.ceil(seconds / 60))
    return f"{count} minute{'s' if count > 1 else ''}"
