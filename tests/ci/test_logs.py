"""What ctest prints and writes."""

from ci import logs

CONSOLE = """\
      Start  1: src/base
 1/8 Test  #1: src/base ..........................   Passed    0.35 sec
      Start  2: src/net
 2/8 Test  #2: src/net ...........................***Failed    1.02 sec
 3/8 Test #13: tests/a-b/iptables-nft ............***Skipped   0.20 sec
 4/8 Test #14: tests/crash .......................***Exception: SegFault  0.11 sec
 5/8 Test #15: tests/abort .......................Subprocess aborted***Exception:   0.12 sec
 6/8 Test #16: tests/slow ........................***Timeout 900.05 sec
 7/8 Test #17: tests/off .........................***Not Run (Disabled)   0.00 sec
 8/8 Test #18: tests/none ........................***Not Run   0.00 sec
      Start 19: tests/hangs
== build with tests: FAILED, 12 s
== tests: FAILED, 3 s
conformance: skipped: Go is not installed
"""

LOG = """\
Start testing: Nov 18 06:12 UTC
----------------------------------------------------------
1/3 Testing: src/base
1/3 Test: src/base
Command: "x"
Directory: y
"src/base" start time: Nov 18 06:12 UTC
Output:
----------------------------------------------------------
[ RUN      ] A.B
src/base/x_test.cpp:3: Skipped
needs root
[  SKIPPED ] A.B (0 ms)
Output:
[  SKIPPED ] 1 test, listed below:
<end of output>
Test time =   0.35 sec
----------------------------------------------------------
2/3 Testing: tests/kernel
Output:
----------------------------------------------------------
skipped, missing: root
<end of output>
3/3 Testing: tests/pytest
Output:
----------------------------------------------------------
SKIPPED [2] tests/x.py:3: no SCTP here
1 passed
"""


def console():
    made = logs.Console()
    for line in CONSOLE.splitlines():
        made.hear(line)
    return made


def test_results():
    made = console()
    assert made.having("passed") == ["src/base"]
    assert made.having("skipped") == ["tests/a-b/iptables-nft", "tests/off"]
    assert made.having("failed") == ["src/net", "tests/crash", "tests/abort", "tests/slow", "tests/none"]
    assert made.results["tests/slow"].seconds == 900.05


def test_what_else_a_stage_says():
    made = console()
    assert made.running() == ["tests/hangs"]
    assert made.broken == ["build with tests", "tests"] and made.broken_builds() == ["build with tests"]
    assert made.said == ["conformance: skipped: Go is not installed"]


def test_outputs_of_a_log_that_may_not_be_whole():
    found = logs.outputs(LOG)
    assert list(found) == ["src/base", "tests/kernel", "tests/pytest"]
    assert list(logs.skips_inside("src/base", found["src/base"])) == ["src/base: A.B: needs root"]
    assert logs.reason(found["tests/kernel"]) == "skipped, missing: root" and logs.reason([]) == "no reason given"
    assert list(logs.skips_inside("t", found["tests/pytest"])) == ["t: [2] tests/x.py:3: no SCTP here"]


def test_the_end_of_an_output():
    assert logs.end([str(number) for number in range(99)])[0] == "    74"
