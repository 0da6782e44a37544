"""with_variant.py VARIANT PROGRAM...: runs a program in an empty network namespace, with PATH leading to one variant
of iptables. Exit status 77 where that cannot be done."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import sandbox  # noqa: E402


def main():
    variant, *argv = sys.argv[1:]
    if os.geteuid() != 0:
        print("skipped: needs root")
        return 77
    with sandbox.sandbox(variant) as box:
        return subprocess.run(["ip", "netns", "exec", box.ns.name, *argv], env=box.environment(), check=False).returncode


sys.exit(main())
