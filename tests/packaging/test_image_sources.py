"""packaging/Dockerfile, without building it. slow/test_image.py does that."""

import re

import roots

DOCKERFILE = (roots.REPOSITORY / "packaging" / "Dockerfile").read_text()


def copied():
    """What the Dockerfile takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1]}


def test_what_it_copies_is_there():
    assert [source for source in copied() if not (roots.REPOSITORY / source).exists()] == []


def test_it_copies_all_that_cmake_reads():
    text = (roots.REPOSITORY / "CMakeLists.txt").read_text()
    folders = set(re.findall(r"^add_subdirectory\((\w+)", text, re.MULTILINE))
    assert folders | {"src", "cmake"} <= copied()
