import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "ci")]


@pytest.fixture(autouse=True)
def no_repository_around(monkeypatch):
    """A hook of git that runs these tests has the repository in its environment, and the tests make some of their own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
