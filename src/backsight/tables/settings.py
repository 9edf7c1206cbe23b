"""What a run was made with: the arguments of its command line, optimizers, commit, seed, versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from backsight.runs import Run

Setting = tuple[str, str, Any]
"""Which sort of setting it is, its name, its value."""

_WITHOUT = ("command", "arguments", "program", "every", "share", "first", "taps", "variables")
"""What is shown otherwise, or is about the recording alone."""


def settings_of(run: Run) -> Iterator[Setting]:
    """Yield what a run was made with, what people look at first first."""
    environment, config = run.environment, run.config
    if "program" in config:
        yield "program", "script", config["program"]
    if run.tree:
        yield "program", "model", ", ".join(root["type"] for root in run.tree)
    for name, value in parsed(arguments_of(run)).items():
        yield "arguments", name, value
    for name, value in config.items():
        if name not in _WITHOUT:
            yield "configuration", name, value
    yield from _optimizers(run)
    for name, value in environment.items():
        if name not in _WITHOUT:
            yield "environment", name, value
    for name in ("every", "taps", "variables"):
        if config.get(name):
            yield "recording", name, config[name]


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a command line by name; those without one by their place.

    >>> parsed(["train", "--lr", "0.1", "--fast", "-k=3", "data.path=x"])
    {'argument 1': 'train', 'lr': '0.1', 'fast': True, 'k': '3', 'data.path': 'x'}
    """
    found: dict[str, Any] = {}
    name: str | None = None
    place = 0
    for word in words:
        if word.startswith("-") and len(word) > 1 and not _is_number(word):
            named, equals, value = word.lstrip("-").partition("=")
            name = None if equals else named
            _add(found, named, value if equals else True)
        elif name is not None:
            _add(found, name, word)
        elif "=" in word:
            named, _, value = word.partition("=")
            _add(found, named, value)
        else:
            place += 1
            found[f"argument {place}"] = word
    return found


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    """Add a value; the words after an option are one value, or several between spaces."""
    before = found.get(name)
    found[name] = value if before is None or before is True else f"{before} {value}"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def arguments_of(run: Run) -> list[str]:
    """Return the program's own arguments."""
    environment = run.environment
    given = environment.get("arguments")
    if isinstance(given, list):
        return [str(each) for each in given]
    command = environment.get("command")  # of a recording that kept the whole command alone
    words = [str(each) for each in command] if isinstance(command, list) else []
    script = next((k for k, word in enumerate(words) if word.endswith(".py")), len(words))
    return words[script + 1 :]


def _optimizers(run: Run) -> Iterator[Setting]:
    found = [event.details for event in run.events if event.event == "optimizer"]
    for held in found:
        name, groups = held.get("name"), held.get("groups")
        prefix = f"{name} " if isinstance(name, str) and name else ""
        yield "optimizer", f"{prefix}optimizer".strip(), held.get("optimizer")
        groups = [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
        rates: list[Any] = []
        for key in dict.fromkeys(key for group in groups for key in group):
            values = [group.get(key) for group in groups]
            if key == "initial_lr" and values == rates:
                continue  # a scheduler's name for the same
            if key == "lr":
                suffixes = [f" (group {k})" for k in range(len(groups))] if len(groups) > 1 else [""]
                values = [_highest(run, f"{prefix}lr{suffixes[k]}", value) for k, value in enumerate(values)]
                rates = values
            alike = all(value == values[0] for value in values)
            yield "optimizer", f"{prefix}{key}", values[0] if alike else ", ".join(map(str, values))


def _highest(run: Run, name: str, value: Any) -> Any:
    """Return the highest value of a learning rate: of one that a schedule warms up, the first was not chosen."""
    if not isinstance(value, float) or (held := run.numbers().get(name)) is None:
        return value
    return float(np.max(held[1], initial=value, where=np.isfinite(held[1])))
