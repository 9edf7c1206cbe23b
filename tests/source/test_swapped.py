"""What is given in the place of another, as the text has it."""

import textwrap

import pytest

from backsight.source.swapped import swapped

PAIRS = {
    'Nets = namedtuple("Nets", "student teacher")\nnets = Nets(teacher, student)': "nets = Nets(student, teacher)",
    'Nets = namedtuple("Nets", ["student", "teacher"])\nnets = Nets(teacher, student)': "nets = Nets(student, teacher)",
    "class Nets(NamedTuple):\n    student: Module\n    teacher: Module\nnets = Nets(self.teacher, self.student)": (
        "nets = Nets(self.student, self.teacher)"
    ),
    "class Nets:\n    def __init__(self, x, student, teacher):\n        pass\nnets = Nets(x, teacher, student)": (
        "nets = Nets(x, student, teacher)"
    ),
    "def made():\n    return student, teacher\nteacher, student = made()": "student, teacher = made()",
}


def found(tmp_path, source):
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(source))
    return [each.mended for each in swapped(str(file))]


@pytest.mark.parametrize("source", PAIRS)
def test_two_in_each_other_s_place(tmp_path, source):
    assert found(tmp_path, source) == [PAIRS[source]]


@pytest.mark.parametrize(
    "source",
    [
        "def made():\n    return student, teacher\nstudent, teacher = made()",
        "def made():\n    return student, teacher\nteacher, other = made()",
        "def pair(student, teacher):\n    pass\npair(teacher, other)",
        "def pair(student, teacher):\n    pass\npair(*both)",
        "def pair(student, teacher):\n    pass\npair(teacher=student, student=teacher)",
    ],
)
def test_others_are_not(tmp_path, source):
    assert found(tmp_path, source) == []
