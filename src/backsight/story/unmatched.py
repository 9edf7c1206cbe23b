"""A choice that no value fits: a function compares a setting with several texts, and it is none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from backsight.source import Place, only
from backsight.source.choices import Choice, another_text, choices, literals
from backsight.source.edits import OR
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.sections import Section, sections


@dataclass(frozen=True, eq=False)
class Unmatched:
    """The choice, the value that fits none of its options, and where the program writes that value: if in one place."""

    section: Section
    choice: Choice
    value: str
    written: Place | None

    @property
    def does(self) -> str:
        """What the choice does, as evidence."""
        return f"handles {self._known}, but {self.choice.name} is {_quoted(self.value)}: none of its branches ran."

    @property
    def fix(self) -> str:
        where = f" in {self.written}" if self.written else ""
        name = self.choice.name.rpartition(".")[2]
        edits = [another_text(self.written, self.value, each) if self.written else "" for each in self.choice.options]
        *others, last = (f"{_quoted(each)}{edit}{OR}" for each, edit in zip(self.choice.options, edits, strict=True))
        return (
            f"Set {name} to one of {', '.join(others)} and {last}{where}, or add a branch for "
            f"{_quoted(self.value)}. An else branch that raises would catch this."
        )

    @property
    def _known(self) -> str:
        *others, last = map(_quoted, self.choice.options)
        return f"{', '.join(others)} and {last}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def unmatched(failure: Failure, matters: Callable[[Section, Choice], bool]) -> Iterator[Unmatched]:
    """Yield the choices on the way to the loss that matter, and whose value is known to be none of their options."""
    for section in sections(failure):
        for choice in choices(section.body):
            value = section.value(choice.name)
            if type(value) is str and value not in choice.options and matters(section, choice):
                places = [place for file in user_files(failure) for place in literals(file, value)]
                yield Unmatched(section, choice, value, only(places))
