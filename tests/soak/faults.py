"""Faults for programs that are started with the library of faults.c, switched on and off while they run."""

import pathlib
import subprocess


class Faults:
    """`environment` is for the program. Everything is in a new folder below `folder`."""

    def __init__(self, folder):
        self._switches = pathlib.Path(folder) / "faults"
        self._switches.mkdir()
        library = self._switches.with_suffix(".so")
        source = pathlib.Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self.environment = {"LD_PRELOAD": str(library), "KP_FAULTS": str(self._switches)}

    def on(self, name, text=""):
        written = self._switches / f".{name}"
        written.write_text(text, encoding="ascii")
        written.rename(self._switches / name)

    def off(self, name):
        (self._switches / name).unlink()
