"""Runs in the virtual machine: the suites, several at a time, each as a pytest process.

    inside.py FOLDER '{"suites": {"NAME": ["ARGUMENT"...]...}, "alone": ["NAME"...], "jobs": 2, "options": ["-k", "..."], "again": 3}'

Writes what they tell (tests/support/events.py), with the name of the suite added, to its standard output, and at the end of each
suite {"suite": name, "event": "over", "status": 0, "seconds": 61.5}. What pytest prints goes to FOLDER/NAME.log.

Up to `again` failing tests of a suite are run once more when no other suite runs, each alone; what they tell then has
"event": "again", and the outcome is "failed" where the test has not even begun.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
# Then a suite says where it hangs. Not too soon: a test of a machine that is loaded may take minutes, and Python 3.11 has been
# seen to crash while it said so.
HANGS_AFTER_S = 280

_lock = threading.Lock()


def tell(event):
    with _lock:
        print(json.dumps(event), flush=True)


def pytest(name, words, folder, hear, more=None):
    """Runs it to its end, and returns its status. `hear` gets what events.py tells."""
    reading, writing = os.pipe()
    env = {**os.environ, "EVENTS_FD": str(writing), "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{SUPPORT}", **(more or {})}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "events", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={HANGS_AFTER_S}",
            *words]
    with open(folder / f"{name}.log", "ab") as log:
        suite = subprocess.Popen(argv, cwd=HERE.parents[1], env=env, pass_fds=[writing], stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=subprocess.STDOUT)
        os.close(writing)
        with open(reading, encoding="utf-8") as events:
            for line in events:
                hear(json.loads(line))
        return suite.wait()


def run(name, words, folder):
    """Runs a suite, and returns the tests that failed; none if the suite itself went wrong."""
    began, failed = time.monotonic(), []

    def hear(event):
        tell({"suite": name, **event})
        if event.get("outcome") == "failed":
            failed.append((event["id"], event["test"]))

    tell({"suite": name, "event": "starts"})
    status = pytest(name, words, folder, hear)
    tell({"suite": name, "event": "over", "status": status, "seconds": round(time.monotonic() - began, 1)})
    return failed if status == 1 else []


def run_again(name, words, case, test, folder):
    """Runs one test alone, and tells how that ended."""
    ends = {"id": case, "outcome": "failed", "text": "it has not run", "seconds": 0}

    def hear(event):
        if event["event"] == "ends" and event["id"] == case:
            ends.update(event)

    tell({"suite": name, "event": "begins", "test": f"{test}, alone"})
    status = pytest(name, words, folder, hear, {"ONLY_CASE": case})
    outcome = ends["outcome"] if status == 0 else "failed"
    tell({**ends, "suite": name, "event": "again", "test": test, "outcome": outcome})


def run_group(task, names, jobs, folder):
    words = {name: [*task["suites"][name], *task["options"]] for name in names}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {name: pool.submit(run, name, words[name], folder) for name in names}
        failed = {name: one.result() for name, one in running.items()}
    for name, tests in failed.items():
        for case, test in tests if len(tests) <= task["again"] else []:
            run_again(name, words[name], case, test, folder)


def main():
    folder, task = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
    alone = [name for name in task["suites"] if name in task["alone"]]
    together = [name for name in task["suites"] if name not in alone]
    for name in alone:
        run_group(task, [name], 1, folder)
    run_group(task, together, task["jobs"], folder)


if __name__ == "__main__":
    main()
