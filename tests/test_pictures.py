"""The pictures in the pages are those that the script draws now, and every one of them is shown."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import fresh
import pytest

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
pictures = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pictures)


def forked(command, *, cwd, env=None, check=False, **captured):
    return fresh.run(command, cwd=cwd, env=env, check=check)


@pytest.fixture(autouse=True)
def programs_are_forked(monkeypatch):
    monkeypatch.setattr(pictures, "subprocess", SimpleNamespace(run=forked))


@pytest.mark.parametrize("picture", pictures.PICTURES, ids=lambda picture: picture.__name__)
def test_a_picture_is_what_the_script_draws(picture):
    if picture is pictures.gpt2:
        pytest.importorskip("transformers", minversion="5.23")  # older ones compute it otherwise
    file = pictures.FOLDER / f"{picture.__name__}.svg"
    assert file.read_text(encoding="utf-8") == pictures.drawn(picture), "run `python docs/pictures.py`, and look"
    assert file.stat().st_size < 27_000


def test_every_picture_is_shown_and_what_is_shown_is_there():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    assert set(re.findall(r"\((?:docs/)?pictures/(\w+)\.svg\)", pages)) == {
        picture.__name__ for picture in pictures.PICTURES
    }
    assert {file.stem for file in pictures.FOLDER.glob("*.svg")} == {picture.__name__ for picture in pictures.PICTURES}


def test_every_screenshot_is_shown_and_small():
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("viewer.md", "diff.md"))
    files = sorted(file for file in pictures.FOLDER.iterdir() if file.suffix != ".svg")
    assert {file.name for file in files} == set(re.findall(r"pictures/([\w-]+\.png)", page))
    assert all(file.stat().st_size < 150_000 for file in files)
