"""Runs inside the virtual machine; see README.md."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "vm" / "guest")]


def pytest_configure():
    """Nothing here may run on the machine of whoever develops: it takes a kernel for its own."""
    if "KP_IN_VM" not in os.environ:
        raise SystemExit("these suites run in a virtual machine: tests/vm/run.py")
