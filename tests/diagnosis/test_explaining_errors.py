"""`explaining` around every kind of function and errors that make it hard; `explain` of errors from elsewhere."""

import asyncio
import sys
import textwrap
from pathlib import Path

import fresh
import pytest
import torch

import backsight as bs


def fails():
    torch.ones(3, requires_grad=True).exp().backward()


def notes(error):
    return getattr(error, "__notes__", [])


class TestAsADecorator:
    def test_each_call_is_explained(self):
        @bs.explaining()
        def train():
            """Fails."""
            fails()

        for _ in range(2):
            with pytest.raises(RuntimeError) as raised:
                train()
            assert len(notes(raised.value)) == 1 and "BS212" in notes(raised.value)[0]
        assert (train.__name__, train.__doc__) == ("train", "Fails.")

    def test_arguments_and_results_are_those_of_the_function(self):
        assert bs.explaining()(lambda a, *, b: (a, b))(1, b=2) == (1, 2)

    def test_a_method(self):
        class Trainer:
            @bs.explaining()
            def fit(self):
                fails()

        with pytest.raises(RuntimeError) as raised:
            Trainer().fit()
        assert "BS212" in notes(raised.value)[0]

    def test_a_coroutine_until_it_has_ended(self):
        @bs.explaining()
        async def train():
            await asyncio.sleep(0)
            fails()

        with pytest.raises(RuntimeError) as raised:
            asyncio.run(train())
        assert "BS212" in notes(raised.value)[0]

    def test_a_generator_until_it_has_ended(self):
        @bs.explaining()
        def batches():
            yield 1
            fails()
            return 2

        with pytest.raises(RuntimeError) as raised:
            list(batches())
        assert "BS212" in notes(raised.value)[0]

    def test_an_asynchronous_generator_likewise(self):
        @bs.explaining()
        async def batches():
            yield 1
            fails()

        async def train():
            return [each async for each in batches()]

        with pytest.raises(RuntimeError) as raised:
            asyncio.run(train())
        assert "BS212" in notes(raised.value)[0]

    def test_an_asynchronous_generator_is_sent_to_thrown_into_and_closed(self):
        seen = []

        @bs.explaining()
        async def batches():
            try:
                seen.append((yield 1))
                try:
                    yield 2
                except KeyError as error:
                    seen.append(error)
                yield 3
            finally:
                seen.append("closed")

        async def train():
            running = batches()
            first, second = await anext(running), await running.asend("sent")
            third = await running.athrow(thrown := KeyError())
            await running.aclose()
            assert ([first, second, third], seen) == ([1, 2, 3], ["sent", thrown, "closed"])

        asyncio.run(train())


class Quitting(RuntimeError):
    """Ends the program where it is asked for its notes."""

    @property
    def __notes__(self):
        raise SystemExit(3)


class Stubborn(RuntimeError):
    """Takes no attribute, and so no note."""

    def __setattr__(self, name, value):
        raise TypeError("nothing may be set")


class Counted(RuntimeError):
    """Keeps notes of its own kind."""

    def __init__(self, *args):
        super().__init__(*args)
        self.__notes__ = ("mine",)


class Secret(RuntimeError):
    @property
    def __notes__(self):
        raise KeyError("asked")

    def __str__(self):
        raise KeyError("asked")

    __repr__ = __str__

    def add_note(self, note):
        raise KeyError("asked")


class TestTheErrorComesOutIntact:
    @pytest.mark.parametrize("kind", [Stubborn, Counted, Secret, Quitting])
    def test_of_a_class_that_takes_no_notes(self, kind, capsys):
        error = kind("grad can be implicitly created only for scalar outputs")
        try:
            with bs.explaining():
                raise error
        except RuntimeError as caught:
            assert caught is error
        if sys.version_info >= (3, 11):
            assert "BS212" in capsys.readouterr().err + "".join(vars(error).get("__notes__", ()))

    def test_when_explaining_itself_fails(self, monkeypatch):
        def broken(error):
            raise RecursionError("ours")

        monkeypatch.setattr(sys.modules["backsight.diagnosis.explanations"], "explained_error", broken)
        with pytest.raises(RuntimeError, match="only for scalar outputs") as raised, bs.explaining():
            fails()
        assert notes(raised.value) == [
            "\nbacksight could not explain this error: RecursionError in broken:" + _line(broken)
        ]

    def test_and_when_nothing_can_be_said_of_that_either(self, monkeypatch):
        monkeypatch.setattr(sys.modules["backsight.diagnosis.explanations"], "explained_error", None)
        monkeypatch.setattr(sys, "stderr", None)
        error = Stubborn("grad can be implicitly created only for scalar outputs")
        with pytest.raises(Stubborn) as raised, bs.explaining():
            raise error
        assert raised.value is error

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_asks_for_an_end_is_let_through(self, kind):
        with pytest.raises(kind) as raised, bs.explaining() as context:
            try:
                fails()
            except RuntimeError:
                raise kind("grad can be implicitly created only for scalar outputs")  # noqa: B904
        assert notes(raised.value) == [] and context.findings == ()

    def test_at_the_end_of_the_stack(self):
        def deeper():
            with bs.explaining():
                deeper()

        with pytest.raises(RecursionError):
            deeper()

    def test_an_autograd_error_at_the_end_of_the_stack(self):
        loss = torch.ones(3, requires_grad=True).exp()

        def deeper():
            try:
                deeper()
            except RecursionError:
                with bs.explaining():
                    loss.backward()

        with pytest.raises(RuntimeError):  # PyTorch's own, or one of the stack
            deeper()
        torch.ones(3, requires_grad=True).sum().backward()  # and all is well afterwards


def _line(function) -> str:
    return str(function.__code__.co_firstlineno + 1)


ELSEWHERE = {
    "a worker of a DataLoader": (
        """
        import torch
        from torch.utils.data import DataLoader

        class Augmented:
            scale = torch.ones(3, requires_grad=True)
            def __len__(self):
                return 4
            def __getitem__(self, index):
                self.scale *= 1.01  # here
                return self.scale

        for batch in DataLoader(Augmented(), num_workers=1):
            pass
        """,
        "BS205",
        "raised the error, in DataLoader worker process 0.",
    ),
    "a pool of processes": (
        """
        import torch
        from concurrent.futures import ProcessPoolExecutor

        def work(k):
            loss = torch.ones(3, requires_grad=True).exp()
            loss.backward()  # here

        if __name__ == "__main__":
            with ProcessPoolExecutor(1) as pool:
                list(pool.map(work, range(2)))
        """,
        "BS212",
        "raised the error, in a process of the pool.",
    ),
    "another pool of processes": (
        """
        import torch
        from multiprocessing import Pool

        def work(k):
            loss = torch.ones(3, requires_grad=True).exp()
            loss.backward()  # here

        if __name__ == "__main__":
            with Pool(1) as pool:
                pool.map(work, range(2))
        """,
        "BS212",
        "raised the error, in a process of the pool.",
    ),
    "spawned processes": (
        """
        import torch

        def work(rank):
            torch.ones(3).sum().backward()  # here

        if __name__ == "__main__":
            torch.multiprocessing.start_processes(work, nprocs=1, start_method="fork")
        """,
        "BS203",
        "raised the error, in process 0.",
    ),
    "what torch.compile traces": (
        """
        import torch

        @torch.compile(backend="eager")
        def step(weight):
            weight += 1  # here
            return weight * 2

        step(torch.ones(3, requires_grad=True))
        """,
        "BS205",
        "raised the error, in what torch.compile traced.",
    ),
}


@pytest.mark.parametrize("program", ELSEWHERE)
def test_an_error_that_comes_as_text_is_told_where_it_was_raised(tmp_path, program):
    source, code, said = ELSEWHERE[program]
    (tmp_path / "train.py").write_text(textwrap.dedent(source).lstrip())
    (line,) = [k for k, text in enumerate(textwrap.dedent(source).lstrip().splitlines(), 1) if "# here" in text]
    done = fresh.run(
        [sys.executable, "-m", "backsight", "run", "train.py"],
        cwd=tmp_path,
        env={**_environment(), "PYTHONPATH": str(Path(bs.__file__).parents[1])},
    )
    assert done.returncode == 1, done.stderr
    explained = done.stderr.partition("\nbacksight explains\n")[2]
    assert f"error {code}  " in explained
    assert f"  train.py:{line}  " in explained
    where, text = said.removeprefix("raised the error, ").rstrip("."), " ".join(explained.split())
    seen = f"(It was raised {where}.)" in text  # as the process itself has seen it
    assert seen or (program == "what torch.compile traces" and "whose variables are not visible" in text)


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
