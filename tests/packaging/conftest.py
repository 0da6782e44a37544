import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import roots  # noqa: E402


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    return roots.build_deb(tmp_path_factory.mktemp("deb"))
