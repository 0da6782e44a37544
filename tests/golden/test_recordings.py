"""`kube-proxy render` prints, for every recording, the rules that the real kube-proxy had in the kernel."""

import pytest
import sandbox


@pytest.fixture(scope="module")
def box():
    sandbox.require()
    with sandbox.sandbox() as made:
        yield made


@pytest.mark.parametrize("recording", sandbox.RECORDINGS)
@pytest.mark.parametrize("family", sandbox.FAMILIES)
def test_renders_what_the_real_one_had(box, recording, family):
    config = box.file("config.yaml", sandbox.config_of(recording))
    done = box.proxy("render", "-f", sandbox.objects_of(recording), "--config", config, "--family", family)
    assert done.returncode == 0, done.stderr
    recorded = sandbox.ROOT / "tests" / "recordings" / recording / f"{sandbox.FAMILIES[family]}.txt"
    assert sandbox.same_rules(recorded, done.stdout, box.folder) == "same"


def test_there_are_28_recordings():
    assert len(sandbox.RECORDINGS) == 28


def test_rendering_is_the_same_every_time(box):
    config = box.file("config.yaml", sandbox.config_of("seed-yaobank"))
    texts = {box.proxy("render", "-f", sandbox.objects_of("seed-yaobank"), "--config", config).stdout for _ in range(3)}
    assert len(texts) == 1


def test_a_changed_rule_is_noticed(box):
    """The comparison itself must be able to fail."""
    recorded = sandbox.ROOT / "tests" / "recordings" / "seed-yaobank" / "iptables.txt"
    text = recorded.read_text()
    assert sandbox.same_rules(recorded, text, box.folder) == "same"
    assert sandbox.same_rules(recorded, text.replace("0.50000000000", "0.40000000000"), box.folder) != "same"
