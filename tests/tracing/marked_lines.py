"""Lines of a test's own source, found by what is written in a comment on them."""

import inspect


def line(mark, test):
    """The number of the line of the function `test`, or of its file, that ends in the comment `# mark`."""
    lines, first = inspect.getsourcelines(inspect.getmodule(test))
    found = [n for n, text in enumerate(lines, max(first, 1)) if text.rstrip().endswith(f"# {mark}")]
    assert len(found) == 1, f"{len(found)} lines are marked {mark}"
    return found[0]
