"""Changes conditions and constants of a file, one at a time, and tells which changes no unit test notices.

    PYTHONPATH=tools python3 -B -m mutants src/plan/plan.cpp          as `make mutants FILE=src/plan/plan.cpp`
    PYTHONPATH=tools python3 -B -m mutants --list src/plan/plan.cpp   only what could be changed

Survivors are printed as they are found, file by file, and a summary at the end. Ends with 0 whether or not mutants survive, and with 1 if it cannot do its work.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

from mutants import equivalent, trials
from mutants.places import Unavailable
from mutants.program import Build, Failed, Program, require_tools, tests_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIPPED = 77
VERDICTS = ("killed", "survived", "not reached", "equivalent", "dropped")


class Progress:
    """What is being done and how long it takes: on a terminal in one line, else a line now and then."""

    EVERY_SECONDS = 10.0

    def __init__(self, name):
        self._name = name
        self._begun = time.monotonic()
        self._told = -self.EVERY_SECONDS
        self._terminal = sys.stderr.isatty()

    def tell(self, text, always=False):
        passed = time.monotonic() - self._begun
        if self._terminal:
            print(f"\r\x1b[K{passed:4.0f} s  {self._name}: {text}", end="", file=sys.stderr, flush=True)
        elif always or passed - self._told >= self.EVERY_SECONDS:
            self._told = passed
            print(f"{passed:4.0f} s  {self._name}: {text}", file=sys.stderr, flush=True)

    def stage(self, text):
        self.tell(text, always=True)

    def finish(self):
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Report:
    """What became of the mutants of one file."""

    def __init__(self, name, mutants, dropped):
        self.name = name
        self.rows = {v: [] for v in VERDICTS}
        self.rows["dropped"] = dropped
        self.remarks = []
        self.count = len(mutants)

    def sort(self, mutants, reached, noticed, reasons):
        for mutant in mutants:
            if mutant.number in noticed:
                verdict = "killed"
                if mutant.number in reasons:
                    self.remarks.append(f"{self.place(mutant)}: marked as equivalent, but a test notices it")
            elif mutant.number in reasons:
                verdict = "equivalent"
            else:
                verdict = "survived" if mutant.number in reached else "not reached"
            self.rows[verdict].append(mutant)

    def place(self, mutant):
        return f"{self.name}:{mutant.line}:{mutant.column}: {mutant.text()}"

    def print(self):
        for verdict in ("survived", "not reached"):
            for mutant in self.rows[verdict]:
                print(f"{self.place(mutant)}{'' if verdict == 'survived' else ' (not reached)'}")
        for remark in self.remarks:
            print(remark)

    def summary(self):
        return f"{self.name}: {self.count} mutants: " + ", ".join(f"{len(self.rows[v])} {v}" for v in VERDICTS)

    def as_json(self):
        return {"file": self.name, "mutants": self.count,
                **{v: [self.place(m) for m in self.rows[v]] for v in VERDICTS}}


def try_file(path, options, progress):
    name = str(path.relative_to(options.root))
    target = options.tests or tests_of(path, options.root)
    build = Build(options.build, options.root, options.jobs)
    progress.stage(f"build {target}")
    build.make(target)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=build.folder) as folder:
        progress.stage("look for what can be changed")
        program = Program(path, build, target, pathlib.Path(folder))
        everything = program.mutants
        progress.stage(f"compile with {len(everything)} mutants")
        program.compile(progress.stage)
        progress.stage("link")
        program.link()
        tests = trials.Tests(program.executable, options.root, pathlib.Path(folder))
        report = Report(name, program.mutants, program.dropped)
        reached = tests.record(options.only, progress.tell)
        noticed = trials.try_all(tests, program.mutants, reached, options.jobs, progress.tell)
    entries = equivalent.read(options.equivalent, name)
    reasons, unused = equivalent.match(entries, everything, path.read_text(encoding="utf-8").splitlines())
    report.remarks += [f"{name}: equivalent.txt: no such mutant: {u}" for u in unused]
    report.sort(program.mutants, reached, noticed, reasons)
    return report


def list_file(path, options):
    build = Build(options.build, options.root, options.jobs)
    build.configure()
    program = Program(path, build, "", pathlib.Path())
    for mutant in program.mutants:
        print(f"{path.relative_to(options.root)}:{mutant.line}:{mutant.column}: {mutant.text()}")


def arguments():
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="C++ files of src/")
    parser.add_argument("--tests", metavar="NAME", help="the test program; default: that of the file's room")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR", help="folder of the build (build)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many tests run at once")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="only suites of tests like this one")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the repository")
    parser.add_argument("--equivalent", type=pathlib.Path, default=HERE / "equivalent.txt",
                        help="mutants that no test can notice (equivalent.txt)")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="JSON", help="write the result there too")
    options = parser.parse_args()
    options.root = options.root.resolve()
    options.build = (options.build or options.root / "build").resolve()
    return options


def work(options):
    """Tries one file after the other. What fails with one is told, and the others still have their turn."""
    reports, status = [], 0
    for path in map(pathlib.Path.resolve, options.files):
        if options.list:
            list_file(path, options)
            continue
        progress = Progress(str(path.relative_to(options.root)))
        try:
            reports.append(try_file(path, options, progress))
        except (Failed, trials.Unfit) as reason:
            status = 1
            print(f"mutants: {path.relative_to(options.root)}: {reason}", file=sys.stderr)
            continue
        finally:
            progress.finish()
        reports[-1].print()
        if options.output:
            options.output.write_text(json.dumps([r.as_json() for r in reports], indent=1) + "\n", encoding="utf-8")
    for report in reports:
        print(report.summary())
    return status


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = arguments()
    try:
        require_tools()
        return work(options)
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return SKIPPED
    except (Failed, trials.Unfit, equivalent.Wrong, OSError, ValueError) as reason:
        print(f"mutants: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mutants: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
