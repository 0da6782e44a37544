"""The checks find what they are for: each runs on a small tree that breaks its rule, and on one
that does not."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

CMAKE = """\
kp_room(base)
kp_room(log USES base)
kp_room(kernel USES base)
kp_room(plan USES base)
kp_room(backend/x USES base plan kernel Foo::foo)
kp_room(cli USES base log backend/x)
"""


def run(check, files):
    """Exit code and output of a check on a tree of these files (name -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        surroundings = {name: value for name, value in os.environ.items() if name != "KP_BUILD"}
        done = subprocess.run([sys.executable, "-B", HERE / f"{check}.py", folder], env=surroundings,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout


class Checks(unittest.TestCase):
    def passes(self, check, files):
        code, output = run(check, files)
        if code == 77:
            self.skipTest(output.strip())
        self.assertEqual(code, 0, output)
        return output

    def finds(self, expected, check, files):
        code, output = run(check, files)
        if code == 77:
            self.skipTest(output.strip())
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)

    def room(self, **files):
        return {"CMakeLists.txt": CMAKE, "src/kernel/k.h": "", **files}

    def test_rooms_accepts_what_is_declared(self):
        self.passes("rooms", self.room(**{
            "src/backend/x/commit.cpp": '#include "backend/x/y.h"\n#include "kernel/k.h"\n',
            "src/cli/main.cpp": '#include "log/log.h"\n'}))

    def test_rooms_lets_backends_share_a_header(self):
        self.passes("rooms", self.room(**{
            "src/backend/shared.h": '#include "plan/p.h"\n',
            "src/backend/x/commit.cpp": '#include "backend/shared.h"\n',
            "src/cli/main.cpp": '#include "backend/shared.h"\n'}))
        self.finds("plan may not use backend", "rooms",
                   self.room(**{"src/plan/p.h": '#include "backend/shared.h"\n'}))

    def test_rooms_finds_an_undeclared_use(self):
        self.finds("src/base/b.h:2: base may not use plan", "rooms",
                   self.room(**{"src/base/b.h": '\n#include "plan/p.h"\n'}))

    def test_rooms_finds_a_room_that_logs(self):
        cmake = CMAKE.replace("kp_room(plan USES base)", "kp_room(plan USES base log)")
        self.finds("plan may not log", "rooms",
                   {"CMakeLists.txt": cmake, "src/plan/p.cpp": '#include "log/log.h"\n'})

    def test_rooms_lets_config_name_the_log_but_not_call_it(self):
        cmake = "kp_room(log)\nkp_room(config USES log)\n"
        include = '#include "log/log.h"\n'
        self.passes("rooms", {"CMakeLists.txt": cmake, "src/config/c.h": include})
        self.finds("config may not log", "rooms",
                   {"CMakeLists.txt": cmake, "src/config/c.cpp": include + 'klog::info("x");\n'})

    def test_rooms_finds_io_behind_a_header_of_a_pure_file(self):
        self.finds("render.cpp -> backend/x/y.h -> kernel/k.h", "rooms", self.room(**{
            "src/backend/x/y.h": '#include "kernel/k.h"\n',
            "src/backend/x/render.cpp": '#include "backend/x/y.h"\n'}))

    def test_rooms_finds_a_use_of_a_room_above(self):
        self.finds("base uses net, which does not stand below it", "rooms",
                   {"CMakeLists.txt": "kp_room(base USES net)\nkp_room(net)\n"})

    def test_rooms_finds_an_include_without_its_room(self):
        self.finds("write the path from src/", "rooms",
                   self.room(**{"src/plan/p.cpp": '#include "p.h"\n'}))

    def test_format(self):
        style = "BasedOnStyle: Google\n"
        self.passes("format", {".clang-format": style, "src/a.cpp": "int a = 1;\n"})
        self.finds("src/a.cpp: not formatted", "format",
                   {".clang-format": style, "src/a.cpp": "int  a=1 ;\n"})

    def test_shellcheck(self):
        self.passes("shellcheck", {"tool": "#!/bin/bash\necho \"$1\"\n", "data": "$x\n"})
        self.finds("SC2086", "shellcheck", {"tool": "#!/bin/bash\nrm $1\n"})

    def test_inside(self):
        self.passes("inside", {"a/b.md": "see ../c and https://x.org/home/y and a/../../c\n"})
        self.finds("b.md:2: leads out", "inside", {"a/b.md": "\nsee " + "../" * 3 + "up/x\n"})
        self.finds("one machine", "inside", {"a.sh": "cat '/ho" + "me/me/x'\n"})

    def test_links(self):
        self.passes("links", {"a.md": "# One two\n[x](a.md#one-two) [y](https://z.org) `[c](d)`\n"})
        self.finds("a.md:1: b.md: no such file", "links", {"a.md": "[x](b.md)\n"})
        self.finds("no such heading", "links", {"a.md": "# One\n[x](#two)\n"})

    def suites(self, *rows, tests=(("a/one", "unit"), ("a/two", "kernel"))):
        """A tree with these rows, a build folder with these tests, and a Makefile."""
        listed = "".join(f'add_test([=[{name}]=] "true")\nset_tests_properties([=[{name}]=] PROPERTIES  LABELS "x;{label}" TIMEOUT "9")\n'
                         for name, label in tests)
        return {"tests/suites.txt": "# a table\n" + "".join(f"{row}\n" for row in rows), "Makefile": ".PHONY: build\nbuild soak: x\n",
                "build/CTestTestfile.cmake": 'subdirs("tests")\n', "build/tests/CTestTestfile.cmake": listed}

    def test_suites(self):
        one, two = "a/one unit always 60 *", "a/two kernel turn 600 iptables"
        backend = {"src/backend/iptables/x.h": ""}
        self.passes("suites", self.suites(one, two, "build build always 5/9 *") | backend)
        self.passes("suites", self.suites("a/* x always 60 tests"))
        self.finds("a/two: 0 rows have it (add one)", "suites", self.suites(one))
        self.finds("a/two: 2 rows have it (a/*, a/two)", "suites", self.suites("a/* x always 60 *", two) | backend)
        self.finds("a/three: there is no such test", "suites", self.suites(one, two, "a/three unit hand 5 *") | backend)
        self.finds("rest: the Makefile has no such target", "suites", self.suites(one, two, "rest build hand 5 *") | backend)
        self.finds("a/two has no label unit", "suites", self.suites(one, "a/two unit turn 5 *"))
        self.finds("line 2: sometimes is no class", "suites", self.suites("a/one unit sometimes 60 *"))
        self.finds("line 2: a row has five columns", "suites", self.suites("a/one unit always 60"))
        self.finds("line 2: 0 is no cost", "suites", self.suites("a/one unit always 0 *"))
        self.finds("601 s are too long for a turn", "suites", self.suites(one, "a/two kernel turn 601 *"))
        self.finds("src/backend/iptables, which is not there", "suites", self.suites(one, two))

    def test_suites_holds_what_always_runs_to_its_minutes(self):
        self.passes("suites", self.suites("a/* x always 3000 *"))  # two at a time
        self.finds("takes 25.0 minutes warm", "suites", self.suites("a/* x always 3000 *", "build build always 1 *"))
        self.finds("takes 40.0 minutes cold", "suites", self.suites("a/* x always 2 *", "build build always 1/2400 *"))

    def test_size_reports_but_does_not_fail(self):
        body = "  a();\n" * 60
        output = self.passes("size", {"src/a.cpp": f"void f() {{\n{body}}}\n"})
        self.assertIn("src/a.cpp:1: a function of 62 lines", output)


unittest.main()
