"""A search observes and does not disturb: it runs nothing of the user's and leaves nothing behind."""

from __future__ import annotations

import collections
import gc
import sys
import textwrap
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fresh
import numpy as np
import pytest
import torch
from hiding import path_of, tensor

from backsight.naming import search

# ---- nothing of the user's is run


class Hostile:
    """Every way in which an object can be asked something ends the test."""

    def __init__(self) -> None:
        object.__setattr__(self, "held", [])

    def refuse(self, *args: object) -> Any:
        raise AssertionError("evaluated")

    __getattr__ = __getattribute__ = __setattr__ = __delattr__ = refuse
    __eq__ = __ne__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = refuse
    __dict__ = property(refuse)  # type: ignore[assignment]
    __class__ = property(refuse)  # type: ignore[assignment]
    __hash__ = object.__hash__


def test_a_hostile_object_is_looked_through_without_being_asked() -> None:
    hostile = Hostile()
    object.__getattribute__(hostile, "held").append(tensor())
    target = weakref.ref(object.__getattribute__(hostile, "held")[0])
    in_a_dict = any(type(each) is dict for each in gc.get_referents(hostile))  # as all attributes up to Python 3.10
    # The way is known, its spelling lies behind a property.
    assert path_of(target) == ("hostile.<Hostile>['held'][0]" if in_a_dict else "hostile.<Hostile>[0]")


def test_a_hostile_object_as_a_key_is_not_evaluated() -> None:
    table = {Hostile(): tensor()}
    target = weakref.ref(next(iter(table.values())))
    assert path_of(target) == "table[<Hostile>]"


@pytest.mark.parametrize("base", [list, tuple, dict, set, frozenset, collections.deque])
def test_a_container_subclass_is_read_past_its_overrides(base: type) -> None:
    def refuse(self: object, *args: object) -> Any:
        raise AssertionError("evaluated")

    asked = ("__iter__", "__getitem__", "__len__", "__contains__", "__getattribute__", "items", "values", "keys")
    hostile = type("HostileContainer", (base,), dict.fromkeys(asked, refuse))
    target = tensor()
    held = hostile({"w": target}) if base is dict else hostile([target])
    kept = weakref.ref(target)
    del target
    assert path_of(kept).startswith("held")
    assert type(held) is hostile


def test_a_metaclass_is_not_asked() -> None:
    class Meta(type):
        def refuse(cls, *args: object) -> Any:
            raise AssertionError("evaluated")

        __getattribute__ = __eq__ = __instancecheck__ = __subclasscheck__ = __repr__ = refuse
        __hash__ = refuse  # type: ignore[assignment]

    class Hidden(metaclass=Meta):
        __slots__ = ("w",)

    member = type.__getattribute__(Hidden, "__dict__")["w"]
    obj = object.__new__(Hidden)
    member.__set__(obj, tensor())
    assert path_of(weakref.ref(member.__get__(obj))) == "obj.w"


def test_a_module_whose_getattr_raises() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    net = Net()
    target = weakref.ref(net.__dict__["_modules"]["fc"].weight)
    assert path_of(target) == "net.fc.weight"


def test_a_tensor_subclass_and_a_torch_function_mode_see_none_of_the_reads() -> None:
    seen: list[object] = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: object, *args: object) -> Any:
            seen.append(func)
            raise AssertionError("evaluated")

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    loud = torch.ones(2).as_subclass(Loud)
    with Mode():
        seen.clear()
        found = search([loud])
        assert seen == []
    assert found.names[0][0].path == "loud"


def test_lazy_modules_are_not_triggered() -> None:
    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("evaluated")

    sys.modules["lazy_usermod"] = lazy = Lazy("lazy_usermod")
    try:
        assert search([tensor()], deep=True).names == ((),)
    finally:
        del sys.modules["lazy_usermod"]
    assert lazy is not None


def test_a_property_and_a_raising_descriptor_are_not_run() -> None:
    class Model:
        @property
        def weight(self) -> Any:
            raise AssertionError("evaluated")

    model = Model()
    model.__dict__["inner"] = tensor()
    assert path_of(weakref.ref(model.__dict__["inner"])) == "model.inner"


# ---- nothing is kept, changed or revived


def test_nothing_is_kept_alive_after_the_call() -> None:
    class Witness:
        pass

    witness = Witness()
    holder = {"w": tensor(), "witness": witness}
    refs = [weakref.ref(witness), weakref.ref(holder["w"])]
    found = search([holder["w"]])
    del holder, witness
    assert [ref() for ref in refs] == [None, None]
    assert found.names[0][0].path == "holder['w']"


def test_a_local_deleted_after_the_search_is_freed_at_once() -> None:
    def work() -> object:
        delta, other = tensor(), tensor()
        ref = weakref.ref(delta)
        assert search([other]).names[0][0].path == "other"
        del delta
        return ref()

    assert work() is None


def test_a_local_deleted_after_the_search_is_freed_in_callers_and_generators_too() -> None:
    def ask() -> None:
        assert search([tensor()]).names == ((),)

    def run() -> Any:
        inside = tensor()
        ref = weakref.ref(inside)
        yield ref
        del inside
        yield ref()

    def work() -> object:
        delta = tensor()
        ref = weakref.ref(delta)
        ask()
        del delta
        return ref()

    running = run()
    assert path_of(next(running)) == "inside"
    assert next(running) is None
    assert work() is None


def test_a_dict_that_the_user_got_from_locals_is_not_rewritten() -> None:
    def work() -> tuple[dict[str, Any], Any]:
        first = 1
        mine = locals()
        second = tensor()
        assert path_of(weakref.ref(second)) == "second"
        first = 2
        return mine, first

    mine, first = work()
    assert (mine, first) == ({"first": 1}, 2)


def test_locals_survive_a_tracer() -> None:
    def work() -> tuple[str, torch.Tensor]:
        delta = tensor()
        text = path_of(weakref.ref(delta))
        kept = delta
        return text, kept

    before = sys.gettrace()
    seen: list[str] = []

    def tracer(frame: types.FrameType, event: str, arg: object) -> Any:
        if frame.f_code is work.__code__ and event == "line" and "delta" in frame.f_locals:
            seen.append(path_of(weakref.ref(frame.f_locals["delta"])))
        return tracer

    sys.settrace(tracer)
    try:
        text, kept = work()
    finally:
        sys.settrace(before)
    assert text == "delta" and kept.shape == (3,)
    assert set(seen) == {"delta"}


@pytest.mark.parametrize("enabled", [True, False])
def test_gc_stays_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        search([tensor()])
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_frozen_objects_are_found() -> None:
    holder = [tensor()]
    gc.freeze()
    try:
        assert path_of(weakref.ref(holder[0])) == "holder[0]"
    finally:
        gc.unfreeze()


def test_an_object_that_reuses_an_id_does_not_inherit_the_name() -> None:
    old = tensor()
    assert path_of(weakref.ref(old)) == "old"
    del old
    saved = [torch.ones(3, requires_grad=True) * 2 for _ in range(50)]
    losses = [each.sin() for each in saved]
    refs = [weakref.ref(each) for each in saved]
    del saved
    del losses[25:]
    gc.collect()
    assert search([ref() for ref in refs[:25]]).names == ((),) * 25


def test_finalizers_do_not_run_amid_a_search_and_nothing_is_revived() -> None:
    died: list[str] = []

    class Mortal:
        def __del__(self) -> None:
            died.append("dead")

    holder = [Mortal()]
    search([tensor()])
    assert died == [] and len(holder) == 1
    holder.clear()
    assert died == ["dead"]


def test_the_walk_does_not_touch_grad_fn() -> None:
    """A node that Python has touched makes freeing a deep graph recursive: this one would end the process."""
    program = """
    import torch
    from backsight.naming import search
    x = torch.ones(1, requires_grad=True)
    for _ in range(200_000):
        x = x + 1
    assert search([x]).names[0][0].text == "x"
    del x
    print("freed")
    """
    done = fresh.run([sys.executable, "-c", textwrap.dedent(program)])
    assert (done.returncode, done.stdout) == (0, "freed\n"), done.stderr


def test_a_view_of_what_was_changed_is_not_mended() -> None:
    base = torch.ones(4, requires_grad=True) * 2
    part = base[:2]
    base.mul_(3)  # autograd would give `part` a new node when asked whether it is a leaf
    number = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
    before = number()
    assert not search([Hostile()], frames=()).names[0]  # found nowhere, so everything was seen
    assert number() == before
    del part


def test_a_search_while_other_threads_change_everything() -> None:
    stop = threading.Event()
    shared: dict[Any, Any] = {"stack": collections.deque(maxlen=50), "list": [], "set": set()}

    def churn(seed: int) -> None:
        at = seed
        while not stop.is_set():
            at += 1
            shared[at % 97] = {at: [at, object()]}
            shared.pop((at * 7) % 97, None)
            shared["stack"].append([at])
            shared["list"].append(at)
            shared["set"].add(at % 501)
            shared["set"].discard((at * 3) % 501)
            if at % 100 == 0:
                shared["list"].clear()

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        target = tensor()
        paths = {path_of(weakref.ref(target), collect=(torch.nn.Module,)) for _ in range(10)}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert paths == {"target"}


def test_backsights_own_variables_are_never_names() -> None:
    program = """
import torch
from backsight.naming import search

found = search([torch.ones(3)], collect=(list,))
assert found.names == ((),)
assert [name.text for _, name in found.found if name.file and "/naming/search" in name.file] == []
"""
    fresh.run([sys.executable, "-c", program], check=True)  # here pytest alone has lists without number


def test_an_object_array_of_a_subclass_is_read_plainly() -> None:
    class Loud(np.ndarray):
        def __getitem__(self, place: object) -> Any:
            raise AssertionError("evaluated")

    array = np.empty(2, object).view(Loud)
    np.ndarray.__setitem__(array, 1, tensor())
    target = weakref.ref(np.ndarray.__getitem__(array, 1))
    assert path_of(target) == "array[1]"


def test_gradients_of_a_thread_that_may_train_are_not_read(monkeypatch) -> None:
    """Its backward replaces them without the GIL: one training in some hundred ended in a segmentation fault."""
    read = []
    monkeypatch.setattr("backsight.naming._torch._grad", lambda tensor: read.append(tensor))
    weight = torch.nn.Parameter(torch.ones(2))
    assert search([object(), weight]).names[1] and any(each is weight for each in read)
    read.clear()
    ready, ended = threading.Event(), threading.Event()

    def train() -> None:
        model = torch.nn.Linear(2, 1)  # in the variables of the optimizer's step, a library's, while the hook waits
        optimizer = torch.optim.SGD(model.parameters())
        optimizer.register_step_pre_hook(lambda *_: ready.set() or (ended.wait(60) and None))
        optimizer.step()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        ready.wait(60)
        search([object()], collect=(torch.optim.Optimizer,))
    finally:
        ended.set()
        thread.join()
    assert read == []


def test_threads_that_load_data_are_no_reason_to_leave_gradients_out() -> None:
    loader = torch.utils.data.DataLoader(torch.arange(64), num_workers=1)
    loading, pool = iter(loader), ThreadPoolExecutor(1)
    next(loading)
    pool.submit(int).result()
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    assert search([weight.grad]).names[0][0].path == "weight.grad"
    pool.shutdown()
    del loading
