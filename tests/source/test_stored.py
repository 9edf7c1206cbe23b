"""Statements that change what is stored where it is read, as the text has them."""

import textwrap

import pytest

from backsight.source.changes import changed_where_read


@pytest.fixture
def changed(tmp_path):
    def read(source):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source))
        return [place.text for place in changed_where_read(str(file))]

    return read


@pytest.mark.parametrize("statement", ["x -= self.mean", "x.div_(self.std)", "x[:3] = 0", "self.images[i] /= 255"])
def test_an_item_that_is_changed(changed, statement):
    source = f"def __getitem__(self, i):\n    x = self.images[i]\n    {statement}\n    return x\n"
    assert changed(source) == [statement]


def test_an_item_that_a_method_is_handed(changed):
    source = """
        class Sounds:
            def normalize(self, item):
                item -= self.mean
                item /= self.std
                return item

            def __getitem__(self, i):
                return self.normalize(self.spectra[i])
    """
    assert changed(source) == ["item -= self.mean"]


def test_what_a_loop_goes_through(changed):
    assert changed("for x in batches:\n    x *= 2\n") == ["x *= 2"]


@pytest.mark.parametrize(
    "source",
    [
        "x = self.images[i].clone()\nx -= self.mean\n",
        "x = (self.images[i] - self.mean) / self.std\n",
        "for x, y in loader:\n    total += loss.item()\n",
        "def scale(item):\n    item *= 2\n\n\nscale(torch.ones(3))\n",
        "for x in loader:\n    x.requires_grad_()\n",
    ],
)
def test_what_is_copied_first_or_is_no_item(changed, source):
    assert changed(source) == []
