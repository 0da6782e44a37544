import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import sandbox as boxes  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--variant", choices=["nft", "legacy"], default="nft", help="which iptables is behind the name")


def pytest_configure(config):
    boxes.require(config.getoption("--variant"))


@pytest.fixture
def variant(request):
    return request.config.getoption("--variant")


@pytest.fixture
def box(variant):
    with boxes.sandbox(variant) as made:
        yield made
