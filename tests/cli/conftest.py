import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import sandbox as boxes  # noqa: E402


def pytest_configure():
    boxes.require()


@pytest.fixture(scope="module")
def box():
    """One node for a whole module: nothing that is refused may touch it."""
    with boxes.sandbox() as made:
        yield made


def failure(done):
    """The error of the line "command failed", without its quotes; None if there is no such line."""
    match = re.search(r'\] "command failed" err=("(?:[^"\\]|\\.)*"|<\n(?:\t.*\n)* >)', done.stderr)
    if match is None:
        return None
    text = match.group(1)
    if text.startswith('"'):
        return json.loads(text)
    return "\n".join(line[1:] for line in text.splitlines()[1:-1])


def crashed(done):
    """Ended by a signal, its own or as a shell would show it."""
    return done.returncode < 0 or done.returncode >= 128
