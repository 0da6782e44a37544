"""What CI runs, and what is known of earlier runs.

    PYTHONPATH=tools python3 -B -m ci run              all that CI does; .ci/run calls it
    PYTHONPATH=tools python3 -B -m ci plan             what it would run now, without running it
    PYTHONPATH=tools python3 -B -m ci record [SUITE]   write what passed in the last run, or these suites, to tests/last-passed.txt
    PYTHONPATH=tools python3 -B -m ci costs [SUITE]    write the seconds of the last run, or of these suites of it, to tests/suites.txt
    PYTHONPATH=tools python3 -B -m ci estimate [LABEL] how long `make test` takes
    PYTHONPATH=tools python3 -B -m ci flaky            tell the flaky cases since `flaky clear`; status 1 if they are too many
"""

import argparse
import datetime
import os
import sys
import time

from ci import flaky, history, plan, record, report, run, table


def do_run(words):
    return run.main(float(words[0]) if words else time.time())


def do_plan(_words):
    rows, entries = table.read(), record.read()
    facts = history.facts(history.Git(), entries)
    always = [row for row in rows if row.group == "always"]
    expected = table.seconds(always)
    print(f"always, {plan.minutes(expected)} warm and {plan.minutes(table.seconds(always, cold=True))} cold:")
    print("".join(f"  {row.suite}\n" for row in always), end="")
    turn = plan.in_turn([row for row in rows if row.group == "turn"], facts, expected)
    print("in turn, if all is warm:")
    for row in turn.run:
        why = "touched" if row.is_touched(facts.changed) else report.last_passed(entries.get(row.suite), facts.ages.get(row.suite))
        print(f"  {row.suite}: {why}")
    print("".join(f"left out: {suite}: {why}\n" for suite, why in turn.left_out.items()), end="")
    return 0


def do_record(words):
    git, rows = history.Git(), table.read()
    if words:  # what a person has run and seen pass
        today = datetime.date.today().isoformat()
        passed = {suite: {"outcome": "passed", "seconds": 0} for suite in known(words, rows)}
        results = {"commit": git.head(), "uncommitted": git.uncommitted(), "date": today, "suites": passed}
    else:
        results = record.load(os.environ.get("KP_CI_RESULTS") or record.RESULTS)
    record.check(results, git)
    entries = record.merged(record.read(), results, {row.suite for row in rows})
    record.PATH.write_text(record.text(entries), encoding="utf-8")
    count = sum(one["outcome"] == "passed" for one in results["suites"].values())
    print(f"{record.PATH.relative_to(table.ROOT)}: {count} suites have passed at {results['commit'][:12]}")
    return 0


def do_costs(words):
    rows = table.read()
    results = record.load(os.environ.get("KP_CI_RESULTS") or record.RESULTS)["suites"]
    wanted = known(words, rows) if words else [row.suite for row in rows if row.is_test]
    measured = {suite: results[suite]["seconds"] for suite in wanted if results.get(suite, {}).get("outcome") == "passed"}
    table.PATH.write_text(table.with_costs(table.PATH.read_text(encoding="utf-8"), measured), encoding="utf-8")
    print(f"{table.PATH.relative_to(table.ROOT)}: {len(measured)} costs are measured ones")
    return 0


def do_estimate(words):
    rows = [row for row in table.read() if row.group != "hand" and row.label != "conformance" and row.suite != run.GO]
    labels = {label for word in words for label in word.split("|")}
    if labels:
        rows = [row for row in rows if not row.is_test or labels & {row.label, *row.touched_by}]
    warm, cold = table.seconds(rows), table.seconds(rows, cold=True)
    print(f"about {plan.minutes(warm)} on two cores; where nothing has been built before about {plan.minutes(cold)}, "
          f"of which {plan.minutes(cold - warm)} are for building and fetching")
    return 0


def do_flaky(words):
    place = flaky.folder(run.FLAKY)
    if words == ["clear"]:
        flaky.clear(place)
        return 0
    found = flaky.notes(place)
    if found:
        print("\n".join(["=== Flaky", *flaky.lines(found)]))
    if flaky.too_many(found):
        print(f"{len(found)} cases are flaky, and more than {flaky.MOST} fail a run")
    return 1 if flaky.too_many(found) else 0


def known(words, rows):
    unknown = set(words) - {row.suite for row in rows}
    if unknown:
        raise record.Wrong(f"tests/suites.txt has no suite {', '.join(sorted(unknown))}")
    return words


COMMANDS = {"run": do_run, "plan": do_plan, "record": do_record, "costs": do_costs, "estimate": do_estimate, "flaky": do_flaky}


def main():
    parser = argparse.ArgumentParser(prog="ci", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("words", nargs="*")
    chosen = parser.parse_args()
    try:
        return COMMANDS[chosen.command](chosen.words)
    except (record.Wrong, table.Wrong) as wrong:
        print(f"ci {chosen.command}: {wrong}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
