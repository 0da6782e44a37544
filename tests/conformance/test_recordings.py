"""For every recording: the objects go into the API server, our proxy and the original both get them from there, and
all three agree on the rules: the recording, the original and ours."""

import pytest
import sandbox
from node import recorded_rules, recording


class Stage:
    """The recording that is being played: both proxies have synced with it. Tests of one recording share it."""

    def __init__(self, plane, nodes):
        self._plane = plane
        self._nodes = nodes
        self._name = None
        self._failures = {}

    def go(self, name):
        if name == self._name:
            return
        self.leave()
        self._name = name
        config, objects = recording(name)
        self._plane.add_service_cidr("seeds", "198.19.32.0/20")  # the tutorials' Services live there
        self._plane.put(*objects)
        for node in self._nodes.values():
            node.start(config)
        for who in self._nodes:
            self._wait(who)
        # Once in a hundred starts the original syncs before it knows its zone, and leaves it at that.
        if "original" not in self._failures and self.difference("original", "recording"):
            self._nodes["original"].clear()
            self._nodes["original"].start(config)
            self._wait("original")

    def _wait(self, who):
        try:
            self._nodes[who].wait_synced()
        except Exception as error:  # noqa: BLE001  (one that fails must not hide how the other does)
            self._failures[who] = str(error)

    def difference(self, who, whose):
        """How the rules of one differ from those of another, in each family where they do."""
        for one in {who, whose} & self._failures.keys():
            pytest.fail(self._failures[one])
        expected = recorded_rules(self._name) if whose == "recording" else self._nodes[whose].all_rules()
        return self._nodes[who].differences(expected)

    def leave(self):
        self._name, self._failures = None, {}
        for node in self._nodes.values():
            node.clear()
        self._plane.wipe()


@pytest.fixture(scope="module")
def stage(session_plane, session_ours, session_original):
    made = Stage(session_plane, {"original": session_original, "ours": session_ours})
    yield made
    made.leave()


# One recording after the other: playing one takes seconds, comparing none.
EVERY_CASE = [pytest.param(name, who, whose, id=f"{name}/{who}-has-the-rules-of-the-{whose}")
              for name in sandbox.RECORDINGS
              for who, whose in [("original", "recording"), ("ours", "recording"), ("ours", "original")]]


@pytest.mark.parametrize(("name", "who", "whose"), EVERY_CASE)
def test_recording(stage, name, who, whose):
    stage.go(name)
    difference = stage.difference(who, whose)
    assert not difference, "\n".join(difference.values())
