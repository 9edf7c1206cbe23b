"""What is put back as it was read too late, as the text has it."""

import textwrap

import pytest

from backsight.source.restoring import put_back_unless_raised, read_too_late


@pytest.fixture
def found(tmp_path):
    def asked(source, state="requires_grad"):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source))
        return [(each.read.line, each.changed.line, each.restored.line) for each in read_too_late(str(file), state)]

    return asked


FROZEN = """\
    def frozen(weights, loss):
        flags = {read}
        for p in weights:
            p.requires_grad_(False)
        loss()
        for p, flag in zip(weights, flags):
            p.requires_grad_(flag)
"""


@pytest.mark.parametrize(
    "read",
    [
        "(p.requires_grad for p in weights)",
        "map(attrgetter('requires_grad'), weights)",
        "enumerate(p.requires_grad for p in weights)",
    ],
)
def test_what_reads_when_it_is_used_up(found, read):
    assert found(FROZEN.format(read=read)) == [(2, 4, 7)]


@pytest.mark.parametrize(
    "read",
    [
        "[p.requires_grad for p in weights]",
        "list(p.requires_grad for p in weights)",
        "(flag for flag in [p.requires_grad for p in weights])",
        "iter(tuple(p.requires_grad for p in weights))",
    ],
)
def test_what_has_read_at_once(found, read):
    assert found(FROZEN.format(read=read)) == []


MODE = "before = torch.is_grad_enabled()\ntorch.set_grad_enabled(before)\n"


def test_a_switch_above_the_reading(found):
    assert found(f"torch.set_grad_enabled(False)\n{MODE}", "grad mode") == [(2, 1, 3)]


@pytest.mark.parametrize(
    "above", ["", "torch.set_grad_enabled(True)\n", "if asked:\n    torch.set_grad_enabled(False)\n"]
)
def test_none_that_has_surely_run(found, above):
    assert found(above + MODE, "grad mode") == []


def test_a_variable_of_another_method_is_another_one(found):
    source = """\
    class Quiet:
        def __enter__(self):
            torch.set_grad_enabled(False)
            {before} = torch.is_grad_enabled()
        def __exit__(self, *raised):
            torch.set_grad_enabled({before})
    """
    assert found(source.format(before="self.before"), "grad mode") == [(4, 3, 6)]
    assert found(source.format(before="before"), "grad mode") == []


@pytest.mark.parametrize(
    ("lines", "skipped"),
    [
        (["p.requires_grad_(False)", "yield", "p.requires_grad_(True)"], 1),
        (["p.requires_grad_(False)", "work()", "p.requires_grad_(True)"], 0),
        (["p.requires_grad_(False)", "try:", "    yield", "finally:", "    p.requires_grad_(True)"], 0),
    ],
)
def test_what_an_exception_skips(tmp_path, lines, skipped):
    file = tmp_path / "train.py"
    file.write_text("\n    ".join(["def frozen(p):", *lines]))
    assert len(list(put_back_unless_raised(str(file), "requires_grad"))) == skipped
