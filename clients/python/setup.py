"""Copies the scripts of counter/scripts into the package that it builds.

In a checkout, the package reads the originals.
"""

from pathlib import Path
from shutil import copy

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SCRIPTS = Path(__file__).resolve().parents[2] / "counter/scripts"
NAMES = ("ask", "begun", "control", "end", "fail", "record", "start")


def copy_scripts(target: Path) -> None:
    if SCRIPTS.is_dir():  # else this is a source distribution, which has them
        target.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            copy(SCRIPTS / f"{name}.lua", target)


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            copy_scripts(Path(self.build_lib, "strikes/scripts"))


class Source(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        copy_scripts(Path(base_dir, "src/strikes/scripts"))


setup(cmdclass={"build_py": Build, "sdist": Source})
