"""What runs inside the virtual machine: each suite is one pytest process, and all share one boot.

A file tests/vm/guest/test_NAME.py is the suite NAME. Suites that live elsewhere are named in ELSEWHERE.
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUEST = ROOT / "tests" / "vm" / "guest"

# Name: the arguments of pytest.
ELSEWHERE = {"behaviour": ["tests/behaviour/test_table.py", "--mode=ipvs"]}

# One after the other before all others: they change the machine as a whole.
ALONE = ["ipvs_module"]
# These begin first, as they take longest; the others follow by name.
LONGEST = ["behaviour", "ipvs_drain", "ipvs_recordings"]


def known():
    """{name: arguments of pytest}, in the order in which they begin."""
    found = {path.stem.removeprefix("test_"): [str(path)] for path in GUEST.glob("test_*.py")} | ELSEWHERE
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name):
    return (LONGEST.index(name) if name in LONGEST else len(LONGEST), name)
