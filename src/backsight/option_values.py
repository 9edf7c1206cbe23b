"""What the options of the command line take: each function reads one value, or says what it must be."""

from __future__ import annotations

import argparse
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any


def port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port must be a number from 0 to 65535, not {text!r}")
    return port


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 3600 seconds, not {text!r}")
    return seconds


def folder(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must be the name of a folder, not ''; leave it out for runs/DATE-SCRIPT")
    return text


def report(text: str) -> str:
    """Return the name of a report; what would fail at the end of a training is better said at once."""
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"a report is one HTML file: its name must end in .html, not {text!r}")
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder for {text!r}")
    return text


def split(given: list[str] | None) -> list[str] | None:
    """Return what was given by repeating an option, or with commas."""
    return None if given is None else [each.strip() for text in given for each in text.split(",") if each.strip()]


def memory(text: str) -> int:
    from backsight.memory.size import bytes_of

    size: int = _read(bytes_of, text)
    return size


def bucket(text: str) -> str:
    from backsight.gradient_release.bucket import bucket_bytes

    _read(lambda written: bucket_bytes(written, 0), text)
    return text


def floating_dtype(text: str) -> Any:
    from backsight.memory.forecast import floating

    return _read(floating, text)


def shape(text: str) -> Any:
    from backsight.tables.cases import Input

    return _read(Input.read, text)


def value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, as in eps=1e-8, not {text!r}")
    try:
        return name, literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a text: reduction=sum


def dtype(text: str) -> Any:
    from backsight.tables.cases import dtype_of

    return _read(dtype_of, text)


def _read(reader: Callable[[str], Any], text: str) -> Any:
    """Read an option's value, and let its error be one of the command line."""
    try:
        return reader(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def steps(text: str) -> tuple[int, ...]:
    words = text.removeprefix("steps=").split(",")
    if len(words) > 1000 or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise argparse.ArgumentTypeError(f"must name steps, counted from 0, as in steps=0,1,100, not {text!r}")
    return tuple(map(int, words))


def rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise argparse.ArgumentTypeError(f"a rank is a number from 0 on, not {text!r}")
    return int(text)


def count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number
