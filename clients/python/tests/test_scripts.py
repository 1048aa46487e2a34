"""The scripts of the package are those of the library, byte by byte."""

import hashlib
from pathlib import Path

import pytest

from conftest import ROOT

MINE = ROOT / "src/strikes/scripts"
THEIRS = ROOT.parents[1] / "counter/scripts"


@pytest.mark.parametrize("script", sorted(p.name for p in MINE.glob("*.lua")))
def test_script_is_the_librarys(script):
    def digest(p: Path) -> str:
        return hashlib.sha256(p.read_bytes()).hexdigest()

    assert digest(MINE / script) == digest(THEIRS / script), "run make client-python-scripts"
