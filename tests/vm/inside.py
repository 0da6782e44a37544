"""Runs in the virtual machine: the suites, several at a time, each as a pytest process.

    inside.py FOLDER '{"suites": {"NAME": ["ARGUMENT"...]...}, "alone": ["NAME"...], "jobs": 2, "options": ["-k", "..."]}'

Writes what they tell (events.py), with the name of the suite added, to its standard output, and at the end of each suite
{"suite": name, "event": "over", "status": 0, "seconds": 61.5}. What pytest prints goes to FOLDER/NAME.log.
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
# Then a suite says where it hangs. Not too soon: a test of a machine that is loaded may take minutes, and Python 3.11 has been
# seen to crash while it said so.
HANGS_AFTER_S = 280

_lock = threading.Lock()


def tell(event):
    with _lock:
        print(json.dumps(event), flush=True)


def run(name, arguments, options, folder):
    began = time.monotonic()
    tell({"suite": name, "event": "starts"})
    reading, writing = os.pipe()
    env = {**os.environ, "EVENTS_FD": str(writing), "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{HERE}"}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "events", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={HANGS_AFTER_S}",
            *arguments, *options]
    with open(folder / f"{name}.log", "wb") as log:
        suite = subprocess.Popen(argv, cwd=HERE.parents[1], env=env, pass_fds=[writing], stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=subprocess.STDOUT)
        os.close(writing)
        with open(reading, encoding="utf-8") as events:
            for line in events:
                tell({"suite": name, **json.loads(line)})
        status = suite.wait()
    tell({"suite": name, "event": "over", "status": status, "seconds": round(time.monotonic() - began, 1)})


def main():
    folder, task = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
    alone = [name for name in task["suites"] if name in task["alone"]]
    together = [name for name in task["suites"] if name not in alone]
    for jobs, names in ((1, alone), (task["jobs"], together)):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for one in [pool.submit(run, name, task["suites"][name], task["options"], folder) for name in names]:
                one.result()


if __name__ == "__main__":
    main()
