"""`backsight.name` says what the program calls a tensor, and what keeps one that no variable holds."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch

import backsight
from backsight.naming import Name
from backsight.snapshot.names import described


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def unnamed(text: str) -> Name:
    return Name(text, path="", scope="", kind="unnamed", exact=False)


# --- tensors that a variable holds


def test_a_local() -> None:
    delta = leaf()
    name = backsight.name(delta)
    assert name.text == "delta (local of test_a_local)"
    assert (name.path, name.scope, name.kind, name.exact, name.distance) == ("delta", "test_a_local", "local", True, 0)


def test_a_closure() -> None:
    def scaled_by(scale: torch.Tensor) -> Any:
        return lambda x: x * scale

    scaled = scaled_by(leaf())
    assert backsight.name(scaled.__closure__[0].cell_contents).text == "scale (closure of scaled_by)"


def test_parameters_gradients_and_optimizer_state() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    weight = model[1].weight
    names = backsight.names([model[0].bias, weight, weight.grad, optimizer.state[weight]["exp_avg"]])
    assert [(name.path, name.kind) for name in names] == [
        ("model.0.bias", "parameter"),
        ("model.1.weight", "parameter"),
        ("model.1.weight.grad", "gradient"),
        ("optimizer.state[model.1.weight]['exp_avg']", "state"),
    ]


def test_all_parameters_of_a_model_from_its_generator() -> None:
    model = torch.nn.Linear(3, 1)
    assert [name.path for name in backsight.names(model.parameters())] == ["model.weight", "model.bias"]


def test_no_tensors() -> None:
    assert backsight.names([]) == ()


def test_a_variable_of_a_library_is_found_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "left_behind", leaf(), raising=False)
    assert backsight.name(torch.nn.functional.left_behind).exact is False
    assert backsight.name(torch.nn.functional.left_behind, deep=True).text == "torch.nn.functional.left_behind"


def test_found_and_unfound_keep_their_order() -> None:
    first, last = leaf(), leaf()
    texts = [name.text for name in backsight.names([first, torch.ones(2), last])]
    scope = "local of test_found_and_unfound_keep_their_order"
    assert texts == [f"first ({scope})", "held by no variable", f"last ({scope})"]


# --- overwritten leaves


def test_an_overwritten_leaf_is_named_after_what_took_its_name() -> None:
    delta, scale = leaf(), torch.ones(3)
    hidden = weakref.ref(delta)
    delta = delta / scale
    name = backsight.name(hidden())
    line = test_an_overwritten_leaf_is_named_after_what_took_its_name.__code__.co_firstlineno + 3
    assert name.text.startswith("delta (overwritten), operand of `delta = delta / scale`, ")
    assert name.text.endswith(f"{Path(__file__).name}:{line}")
    assert (name.path, name.kind, name.exact, name.distance) == ("delta", "local", False, 1)
    assert (name.file, name.line) == (__file__, line)


def test_the_distance_counts_the_operations_to_the_result() -> None:
    delta = leaf()
    hidden = weakref.ref(delta)
    delta = (delta * 2).exp()
    assert backsight.name(hidden()).distance == 2


def test_an_overwritten_global_of_a_script_is_named_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import weakref, torch, backsight\n"
        "delta = torch.ones(3, requires_grad=True)\n"
        "hidden = weakref.ref(delta)\n"
        "delta = delta / 3\n"
        "print(backsight.name(hidden()).text)\n"
    )
    done = fresh.run([sys.executable, "train.py"], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("delta (overwritten), operand of `delta = delta / 3`, train.py:4\n", "")


def test_a_leaf_that_never_had_a_variable_is_placed_by_its_distance() -> None:
    loss = (leaf() * 2).sum()
    (only,) = backsight.graph(loss).leaves
    assert backsight.name(only.tensor()) == Name(
        "held by no variable: a leaf, 2 operations before loss", "", "", "unnamed", exact=False, distance=2
    )


# --- tensors that only the graph holds


def test_a_tensor_that_a_node_saved_is_told_by_node_and_field() -> None:
    between = leaf() * 2
    hidden = weakref.ref(between)
    loss = between.sin().sum()
    del between
    assert backsight.name(hidden()) == unnamed(
        "held by no variable: saved by SinBackward0 as self, 1 operation before loss"
    )
    assert loss.requires_grad


def test_a_tensor_saved_by_the_node_that_made_a_variable() -> None:
    between = leaf() * 2
    hidden = weakref.ref(between)
    wave = between.sin()
    del between
    assert backsight.name(hidden()) == unnamed("held by no variable: saved by SinBackward0 as self, which made wave")
    assert wave.requires_grad


def test_a_tensor_that_a_custom_function_saved() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            between = x + 1
            hidden.append(weakref.ref(between))
            ctx.save_for_backward(between)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    hidden: list[Any] = []
    doubled = Double.apply(leaf())
    text = "held by no variable: saved by DoubleBackward as saved_tensors[0], which made doubled"
    assert backsight.name(hidden[0]()) == unnamed(text)
    assert doubled.requires_grad


def test_an_alias_of_a_saved_result_is_told_by_the_node_that_saved_it() -> None:
    """A node keeps its own output as a tensor of its own on the same memory."""
    loss = leaf().exp().sum()
    text = "held by no variable: saved by ExpBackward0 as result, 1 operation before loss"
    assert backsight.name(loss.grad_fn.next_functions[0][0]._saved_result) == unnamed(text)


# --- tensors that nothing holds


def test_a_detached_alias_shares_the_memory_of_a_variable() -> None:
    delta = leaf()
    scope = "test_a_detached_alias_shares_the_memory_of_a_variable"
    text = f"held by no variable: shares its memory with delta (local of {scope})"
    assert backsight.name(delta.detach()) == unnamed(text)


def test_a_temporary_result_is_told_by_the_operation_that_made_it() -> None:
    delta = leaf()
    assert backsight.name(delta * 2) == unnamed("held by no variable: a temporary, made by MulBackward0")


def test_a_temporary_without_a_graph() -> None:
    assert backsight.name(torch.ones(3)) == unnamed("held by no variable")


def test_a_deleted_variable_is_no_name() -> None:
    delta = leaf()
    pool = [delta]
    del delta
    assert backsight.name(pool.pop()) == unnamed("held by no variable")


def test_a_search_that_did_not_see_everything_says_so() -> None:
    (name,) = described([torch.ones(3)], deep=False, complete=False)
    assert name == unnamed("no variable found; there were too many objects to see all")


# --- it observes


def test_asking_keeps_nothing_alive() -> None:
    delta = leaf()
    hidden = weakref.ref(delta)
    backsight.names([delta, delta * 2, torch.ones(3)])
    del delta
    assert hidden() is None


def test_a_subclass_is_not_asked() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{func} was run")

        def __repr__(self, *, tensor_contents: object = None) -> str:
            raise AssertionError("repr was run")

    loud = torch.ones(3).as_subclass(Loud)
    kept = [backsight.name(loud).path, backsight.name(torch.ones(3).as_subclass(Loud)).text]
    assert kept == ["loud", "held by no variable"]


def test_the_graph_can_still_be_used() -> None:
    x = leaf()
    loss = (x * 2).exp().sum()
    backsight.name((x * 3).detach())
    loss.backward()
    assert x.grad is not None


@pytest.mark.slow
def test_naming_a_temporary_of_a_deep_graph_is_safe() -> None:
    program = """
import torch, backsight
y = torch.ones(1, requires_grad=True)
for _ in range(100_000):
    y = y * 1.0
print(backsight.name(y * 2).text)
del y
print("freed")
"""
    done = fresh.run([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, "held by no variable: a temporary, made by MulBackward0\nfreed\n")


# --- bad input

MODEL = torch.nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "name() takes a tensor, not None."),
        (3.0, "name() takes a tensor, not an object of type float."),
        ([], "name() takes a tensor, not an object of type list. For several tensors, call names([...])."),
        (
            MODEL,
            "name() takes a tensor, not an object of type Linear. For its parameters, call names(model.parameters()).",
        ),
    ],
)
def test_only_a_tensor_has_a_name(given: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        backsight.name(given)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "names() takes several tensors, not None."),
        (3, "names() takes several tensors, not an object of type int."),
        (torch.ones(3), "names() takes several tensors, in a list for instance; name(tensor) takes one."),
        ([torch.ones(3), 3], "names() takes tensors, and number 1 is an object of type int."),
        ({"delta": torch.ones(3)}, "names() takes tensors, and number 0 is an object of type str."),
        (
            MODEL,
            "names() takes several tensors, not an object of type Linear. For its parameters, call "
            "names(model.parameters()).",
        ),
    ],
)
def test_only_tensors_have_names(given: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        backsight.names(given)
    assert str(raised.value) == message


def test_an_object_that_refuses_everything_is_named_by_its_type_only() -> None:
    class Hostile:
        def refuse(self, *args: object) -> Any:
            raise AssertionError("evaluated")

        __getattribute__ = __eq__ = __repr__ = __str__ = __bool__ = __len__ = refuse
        __class__ = property(refuse)  # type: ignore[assignment]  # what is tested

    with pytest.raises(TypeError, match=r"name\(\) takes a tensor, not an object of type .*Hostile\."):
        backsight.name(Hostile())  # type: ignore[arg-type]  # what is tested
