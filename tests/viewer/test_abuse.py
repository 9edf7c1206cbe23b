"""The viewer under use that nobody meant: many runs, long names, runs that go away, clients that never end."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import shutil
import socket
import time
from contextlib import closing
from urllib.parse import quote

import numpy as np
import pytest
from recorded_runs import digits

from backsight.runs import STATISTICS, RunWriter, lines
from backsight.viewer import Library, Server
from backsight.viewer.answers.heat import MOST_CELLS
from backsight.viewer.question import QUESTIONS, answering

NAMES = ("x" * 10_000, "层.重み." + "ü" * 3000, "\u202eevil", "a\nb", "", "..", "/etc/passwd", "a,b&c=d#e?f")
ABOUT_A_TENSOR = ("lines", "related", "rows", "histograms", "graph")


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    return tmp_path / "runs"


def write(path, names, steps=3):
    rows = np.zeros(len(names), STATISTICS)
    rows["count"], rows["m2"] = 4, 1.0
    with RunWriter(path) as writer:
        numbers = [writer.tensor(name, "grad", name, (4,), "float32") for name in names]
        for step in range(steps):
            writer.append(step, numbers, rows)
            writer.mark(step, loss=1.0 / (step + 1))


def asked(server, path):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", path, headers={"x-backsight-token": server.token})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize("question", ABOUT_A_TENSOR)
def test_a_tensor_of_any_name_can_be_asked_for(folder, question):
    write(folder / "names", NAMES)
    with Server(Library(folder)) as server:
        for name in NAMES:
            status, answer = asked(server, f"/api/ask/{question}?run=names&kind=grad&tensor={quote(name, safe='')}")
            assert status == 200
            assert answer.get("tensor", name) == name


def test_a_long_name_that_is_not_there_is_not_said_at_length(folder):
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server:
        status, answer = asked(server, f"/api/ask/lines?run=run&kind=grad&tensor={'x' * 9_000}")
    assert (status, len(answer["error"]) < 1_300) == (400, True)
    assert answer["error"].startswith("the run has no tensor 'xxx")


def test_many_tensors_have_fewer_columns(folder):
    tensors, steps = 2_600, 800
    rows = np.zeros(tensors, STATISTICS)
    rows["count"] = 1
    with RunWriter(folder / "wide") as writer:
        numbers = [writer.tensor(f"t{k}", "grad") for k in range(tensors)]
        for step in range(0, steps, 2):
            writer.append(step, numbers, rows)
    answer = Library(folder).ask("wide", "heatmap", {"kind": "grad", "stat": "l2", "columns": "4000"})
    assert 1 < answer["columns"] < steps // 2
    assert answer["columns"] * tensors <= MOST_CELLS


def test_a_listing_reads_only_the_runs_that_have_changed(folder, monkeypatch):
    for name in ("a", "b"):
        write(folder / name, ["t"])
    library = Library(folder)
    listing = importlib.import_module("backsight.viewer.answers.listing")
    read = []
    line = listing._line
    monkeypatch.setattr(listing, "_line", lambda run: (read.append(run.name), line(run))[1])

    def listed():
        read.clear()
        found = listing.listing({name: library.run(name) for name in library.names()})["runs"]
        return {each["name"]: each["steps"] for each in found}

    assert listed() == {"a": 3, "b": 3}
    assert sorted(read) == ["a", "b"]
    assert listed() == {"a": 3, "b": 3}
    assert read == []
    shutil.rmtree(folder / "b")
    assert listed() == {"a": 3}
    assert "a" not in read


def test_a_listing_sees_a_run_grow(folder):
    writer = RunWriter(folder / "live")
    tensor = writer.tensor("t", "grad")
    rows = np.zeros(1, STATISTICS)
    with Server(Library(folder)) as server:
        for step in range(3):
            writer.append(step, [tensor], rows)
            writer.flush()
            _, found = asked(server, "/api/runs")
            assert [(run["state"], run["steps"]) for run in found["runs"]] == [("recording", step + 1)]
    writer.close()


def test_a_run_that_is_removed_while_it_is_looked_at_is_gone(folder):
    write(folder / "there", ["t"])
    write(folder / "gone", ["t"])
    with Server(Library(folder)) as server:
        assert asked(server, "/api/ask/about?run=gone")[0] == 200
        shutil.rmtree(folder / "gone")
        for question in ("about", "marks", "heatmap?stat=l2&kind=grad", "findings"):
            status, answer = asked(server, f"/api/ask/{question}{'&' if '?' in question else '?'}run=gone")
            assert (status, "there is no run at" in answer["error"]) == (410, True)
        assert [run["name"] for run in asked(server, "/api/runs")[1]["runs"]] == ["there"]


@pytest.mark.parametrize("tree", ["[]", {"a": 1}, [1], [{"name": "", "type": 3}], [{"children": None}]])
def test_a_tree_that_is_none_fails_no_other_question(folder, tree):
    """Its checksum is right, so this is what somebody wrote, not what a disk did to it."""
    write(folder / "odd", ["t"])
    (folder / "odd" / "rank-00000" / "tree.json").write_bytes(lines.sealed({"tree": tree}))
    with Server(Library(folder)) as server:
        assert asked(server, "/api/ask/heatmap?run=odd&stat=l2&kind=grad")[0] == 200
        assert asked(server, "/api/ask/lines?run=odd&tensor=t&kind=grad")[0] == 200
        for question in ("about", "findings"):
            status, answer = asked(server, f"/api/ask/{question}?run=odd")
            assert status == 200 or answer["error"].startswith("The viewer cannot answer this: ")


@pytest.mark.parametrize("line", [{"a": 1}, {"step": "x", "tags": {}}, {"step": 1, "tags": 3}, {"step": None}])
def test_a_tag_that_is_none_is_damage(folder, line):
    write(folder / "odd", ["t"])
    with (folder / "odd" / "rank-00000" / "marks.jsonl").open("ab") as file:
        file.write(lines.sealed(line))
    with Server(Library(folder)) as server:
        status, answer = asked(server, "/api/ask/marks?run=odd")
        assert (status, answer["lines"]["loss"]["steps"]) == (200, [0, 1, 2])
        assert asked(server, "/api/ask/about?run=odd")[1]["damage"] == "1 line"


def test_clients_that_never_end_keep_nobody_waiting(folder):
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        for each in slow:
            each.sendall(b"GET / HTTP/1.1\r\nHost:")
        greedy = socket.create_connection(("127.0.0.1", server.port))
        request = (
            f"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nx-backsight-token: {server.token}\r\n\r\n"
        )
        greedy.sendall(request.encode() * 50)  # and reads none of the answers
        assert asked(server, "/api/runs")[0] == 200
        for each in (*slow, greedy):
            each.close()


def closed(connection):
    """Wait until the other side has closed a connection; what it said before is not looked at."""
    connection.settimeout(60)
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def head(server, path="/api/runs", more=""):
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nx-backsight-token: {server.token}\r\n{more}\r\n"
    ).encode()


@pytest.mark.parametrize("said", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", "body", "twice"])
def test_a_client_that_never_ends_its_request_is_left(folder, monkeypatch, said):
    patience = importlib.import_module("backsight.viewer.patience")
    monkeypatch.setattr(patience, "ASKING", 0.2)
    monkeypatch.setattr(patience, "LOOK", 0.05)
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server:
        if said == "body":  # it is answered, and goes on sending
            said = head(server, more="Content-Length: 1000000\r\n") + b"x" * 10
        elif said == "twice":
            said = head(server) + b"GET"
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        for each in slow:
            each.sendall(said)
        assert all(closed(each) for each in slow)
        for each in slow:
            each.close()
        assert asked(server, "/api/runs")[0] == 200


def test_a_client_that_sends_a_byte_now_and_then_is_left(folder, monkeypatch):
    patience = importlib.import_module("backsight.viewer.patience")
    monkeypatch.setattr(patience, "ASKING", 0.2)
    monkeypatch.setattr(patience, "LOOK", 0.05)
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server, socket.socket() as slow:
        slow.connect(("127.0.0.1", server.port))
        with pytest.raises(ConnectionError):
            for _ in range(10_000):
                slow.sendall(b"G")
                time.sleep(0.01)


def test_a_client_that_does_not_take_its_answers_is_left(folder, monkeypatch):
    patience = importlib.import_module("backsight.viewer.patience")
    monkeypatch.setattr(patience, "TAKING", 0.2)
    monkeypatch.setattr(patience, "LOOK", 0.05)
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server, socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.connect(("127.0.0.1", server.port))
        greedy.settimeout(60)
        with pytest.raises(ConnectionError):
            for _ in range(100_000):
                greedy.sendall(head(server, "/"))


def test_who_waits_for_a_long_answer_is_not_left(folder, monkeypatch):
    patience = importlib.import_module("backsight.viewer.patience")
    for name in ("ASKING", "TAKING", "LOOK"):
        monkeypatch.setattr(patience, name, 0.01)
    write(folder / "run", ["t"])
    answering("marks")
    monkeypatch.setitem(QUESTIONS, "marks", lambda run, asked: (time.sleep(0.2), {"lines": {}})[1])
    with Server(Library(folder)) as server:
        assert asked(server, "/api/ask/marks?run=run")[0] == 200


def test_a_request_that_is_too_long_is_refused(folder):
    write(folder / "run", ["t"])
    with Server(Library(folder)) as server:
        with pytest.raises((OSError, http.client.HTTPException, ValueError)):
            asked(server, "/api/ask/about?run=" + "a" * 600_000)
        status, answer = asked(server, "/api/ask/about?run=" + "a" * 100_000)
        assert (status, answer["error"][:14]) == (404, "There is no ru")


def test_looking_changes_nothing_on_the_disk(folder):
    digits(folder / "run", 5)
    state = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}
    library = Library(folder)
    for question in ("about", "marks", "findings", "graph", "memory"):
        library.ask("run", question, {})
    library.ask("run", "heatmap", {"stat": "l2", "kind": "grad"})
    for question in ABOUT_A_TENSOR:
        library.ask("run", question, {"tensor": "head.weight", "kind": "grad"})
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")} == state


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_run_that_may_not_be_read_is_left_out(folder):
    write(folder / "mine", ["t"])
    write(folder / "secret", ["t"])
    (folder / "secret").chmod(0)
    try:
        assert Library(folder).names() == ["mine"]
    finally:
        (folder / "secret").chmod(0o700)


def test_a_damaged_run_that_is_removed_is_gone(folder):
    write(folder / "there", ["t"])
    (folder / "damaged" / "rank-00000").mkdir(parents=True)
    with Server(Library(folder)) as server:
        assert [run["name"] for run in asked(server, "/api/runs")[1]["unreadable"]] == ["damaged"]
        shutil.rmtree(folder)
        status, answer = asked(server, "/api/runs")
        assert status != 200 or (answer["runs"], answer["unreadable"]) == ([], [])
