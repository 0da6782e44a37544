#!/usr/bin/env python3
"""fake_gtest.py CASES [FLAG...]: speaks like a GoogleTest program whose cases end as the file CASES says.

CASES is {"cases": {name: [how it ends the first time, the second time, ...]}, "status": n}. A case ends as "ok", "failed",
"skipped", "crash", "exit" (without a word, with status 0), "sanitizer" or "hang"; the last word holds for all later times. How
often each has run is kept beside CASES.
"""

import json
import os
import pathlib
import signal
import sys
import time

CASES = pathlib.Path(sys.argv[1])
ENDS = {"ok": "[       OK ]", "failed": "[  FAILED  ]", "skipped": "[  SKIPPED ]"}


def flags():
    found = dict(word.partition("=")[::2] for word in sys.argv[2:])
    if "--gtest_flagfile" in found:
        text = pathlib.Path(found["--gtest_flagfile"]).read_text(encoding="utf-8")
        found |= dict(line.partition("=")[::2] for line in text.splitlines())
    return found


def chosen(names, pattern):
    wanted, _, unwanted = pattern.partition("-")
    return [name for name in names if wanted in ("*", name) and name not in unwanted.split(":")]


def how(name, ways):
    """How it ends this time."""
    counter = CASES.with_name("ran-" + name.replace("/", "_"))
    ran = len(counter.read_text()) if counter.exists() else 0
    counter.write_text("x" * (ran + 1))
    return ways[min(ran, len(ways) - 1)]


def run(name, end):
    print(f"[ RUN      ] {name}\n{name} says {end}", flush=True)
    if end == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if end == "exit":
        os._exit(0)
    if end == "sanitizer":
        print("==1==ERROR: AddressSanitizer: heap-use-after-free", flush=True)
        os._exit(1)
    if end == "hang":
        CASES.with_name("hangs").touch()
        time.sleep(600)
    # Without the end of the line before it, as a case that prints may leave it.
    print(f"some words{ENDS[end]} {name}{', where GetParam() = 1' if end == 'failed' else ''} (0 ms)", flush=True)
    return end


def main():
    told, given = json.loads(CASES.read_text(encoding="utf-8")), flags()
    ends = {name: run(name, how(name, told["cases"][name])) for name in chosen(told["cases"], given.get("--gtest_filter", "*"))}
    suite = [{"classname": name.partition(".")[0], "name": name.partition(".")[2], "result": "COMPLETED",
              **({"failures": [{"failure": "wrong"}]} if end == "failed" else {})} for name, end in ends.items()]
    report = pathlib.Path(given["--gtest_output"].removeprefix("json:"))
    report.write_text(json.dumps({"testsuites": [{"testsuite": suite}]}), encoding="utf-8")
    return told.get("status") or (1 if "failed" in ends.values() else 0)


sys.exit(main())
