import shutil

import pytest


def pytest_configure():
    try:
        import clang.cindex  # noqa: F401
    except ImportError:
        pytest.exit("skipped: this suite needs python3-clang-19 (tools/setup mutants)", returncode=77)
    for program in ("ninja", "c++"):
        if shutil.which(program) is None:
            pytest.exit(f"skipped: this suite needs the program {program} (tools/setup build)", returncode=77)
