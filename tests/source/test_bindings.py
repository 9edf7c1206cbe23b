"""Which statements bind a name."""

from backsight.source.bindings import assignments


class TestAssignments:
    SOURCE = """
        x = 1
        (x, y), *z = f()
        x += 1
        x: int = 3
        x: int
        for x in y: pass
        with f() as (x, w): pass
        if (x := 2): pass
        import x
        def x(): x = 1
        [x for x in y]
        x.a = 1
        x[0] = 1
        del x
    """

    def test_are_the_statements_that_bind_the_name(self, body_of):
        body = body_of(self.SOURCE)
        assert [place.line for place in assignments(body, "x")] == [1, 2, 3, 4, 6, 7, 8, 9, 10]

    def test_before_a_line(self, body_of):
        body = body_of(self.SOURCE)
        assert [place.text for place in assignments(body, "x", before=3)] == ["x = 1", "(x, y), *z = f()"]

    def test_of_an_attribute(self, body_of):
        assert [place.line for place in assignments(body_of(self.SOURCE), "x.a")] == [12]
