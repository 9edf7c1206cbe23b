"""What was modified in place is explained without asking anything of the program, and without keeping it alive."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from failures import at, explained, failing
from torch import nn

import backsight as bs


class Hostile(nn.Module):
    def __getattr__(self, name):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    __eq__ = __bool__ = __len__ = __hash__ = __repr__  # type: ignore[assignment]


class HostileTensor(torch.Tensor):
    @property
    def shape(self):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ValueError("asked")


PROGRAMS = {
    "BS202": "x = torch.randn(3, requires_grad=True)\ny = x.sigmoid()\ny += 1\ny.sum().backward()\n",
    "BS205": "w = torch.randn(3, requires_grad=True)\nw += 1\n",
    "BS209": "a, b = (torch.randn(4, requires_grad=True) * 2).chunk(2)\na += b\n",
}


class TestSafety:
    @pytest.mark.parametrize("code", PROGRAMS)
    def test_hostile_objects_beside_the_failure_are_not_asked(self, code):
        lines = ["def main(hostile, other):", "    mine = [hostile, other]"]
        lines += [f"    {line}" for line in PROGRAMS[code].splitlines()]
        source = "\n".join([*lines, "main(hostile, other)"])
        other = torch.ones(3).as_subclass(HostileTensor)
        finding = explained(source, hostile=object.__new__(Hostile), other=other)
        assert finding.code == code
        assert "could not analyze it further" not in str(finding)

    def test_what_a_model_overrides_is_not_run(self):
        source = """
            class Guarded(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = torch.nn.Linear(2, 2)
                def forward(self, x):
                    h = self.fc(x).sigmoid()
                    h += 1
                    return h
                def named_modules(self, *args, **kwargs):
                    raise ValueError("asked")
                modules = children = parameters = named_parameters = named_modules
            model = Guarded()
            model(torch.randn(3, 2)).sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "h += 1")

    @pytest.mark.parametrize("code", PROGRAMS)
    def test_nothing_is_kept_alive(self, code):
        error = failing(PROGRAMS[code])
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        frame = failing(PROGRAMS[code]).__traceback__.tb_next.tb_frame
        tensors = [weakref.ref(value) for value in frame.f_globals.values() if isinstance(value, torch.Tensor)]
        del frame, trace
        finding = bs.explain(error)
        error.__traceback__ = None
        del error
        gc.collect()
        assert finding.code == code
        assert tensors
        assert all(ref() is None for ref in tensors)
