"""Who may ask the viewer: attacks, as they are known from other local servers."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from contextlib import closing

import pytest


@pytest.fixture
def asked(server):
    """Return a function that asks as any program on this machine could, and gives status, headers and body."""

    def asked(path, method="GET", token=True, **headers):
        given = {"x-backsight-token": server.token} if token else {}
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {"host": f"127.0.0.1:{server.port}", **given, **headers}.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()

    return asked


def test_whoever_has_the_token_is_answered(asked):
    status, headers, body = asked("/api/runs")
    assert status == 200
    assert len(json.loads(body)["runs"]) == 6
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/difference", "/api/runs", "/api/ask/about?run=first", "/nothing"])
def test_without_the_token_nothing_is_answered(asked, path):
    status, _, body = asked(path, token=False)
    assert status == 403
    assert "the address that `backsight view` prints" in body


def test_a_wrong_token_opens_nothing(asked):
    assert asked("/?token=wrong", token=False)[0] == 403
    assert asked("/api/runs", token=False, cookie="backsight=wrong")[0] == 403
    assert asked("/api/runs?token=wrong", token=False)[0] == 403


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_cannot_read(asked, server):
    status, headers, _ = asked(f"/?token={server.token}", token=False)
    cookie = headers["set-cookie"]
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    status, _, _ = asked("/api/runs", token=False, cookie=cookie.partition(";")[0])
    assert status == 200


@pytest.mark.parametrize(
    "others",
    [
        'theme={"dark": true}',
        "name=John Smith",
        "x=caf\u00e9",
        "a/b=1",
        "=",
        "",
        "a=b=c",
        'quoted="open',
        "[]=1; {}=2; @=3",
        "x" * 60_000,
        "\u00ff\u00fe=\u0080",
        "expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/; $Version=1",
    ],
)
def test_cookies_of_other_servers_on_this_machine_lock_nobody_out(asked, server, others):
    """A browser keeps cookies by host, not by port: whatever another local server has set comes along."""
    mine = f"backsight-{server.port}={server.token}"
    for cookie in (f"{others}; {mine}", f"{mine};{others}", f"{others};{mine};{others}"):
        assert asked("/api/runs", token=False, cookie=cookie)[0] == 200
    assert asked("/api/runs", token=False, cookie=others)[0] == 403
    assert asked("/api/runs", token=False, cookie=f"{others}; {mine}x")[0] == 403


def test_a_cookie_of_our_name_from_elsewhere_hides_ours_not(asked, server):
    name = f"backsight-{server.port}"
    assert asked("/api/runs", token=False, cookie=f"{name}=old; {name}={server.token}")[0] == 200
    assert asked("/api/runs", token=False, cookie=f"{name}=old; {name}=")[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "[::1]evil", "", "0.0.0.0"])
def test_a_name_that_was_made_to_point_here_is_refused(asked, host):
    assert asked("/api/runs", host=host)[0] == 421


def test_the_names_of_this_machine_are_accepted(asked, server):
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert asked("/api/runs", host=f"{host}:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
    ],
)
def test_another_page_may_not_ask(asked, headers):
    assert asked("/api/runs", **headers)[0] == 403


def test_a_link_from_elsewhere_may_be_followed(asked):
    headers = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert asked("/", **headers)[0] == 200
    assert asked("/api/runs", **headers)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(asked, method):
    assert asked("/api/runs", method)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/../../etc/passwd",
        "/api/ask/about?run=../first",
        "/api/ask/about?run=%2e%2e%2ffirst",
        "/api/ask/about?run=/etc",
        "/api/ask/../../about?run=first",
        "/api/ask/about?run=first%00",
        "/static/viewer.css",
    ],
)
def test_no_path_leads_out_of_the_folder(asked, path):
    status, _, body = asked(path)
    assert status == 404
    assert "root:" not in body


def test_pages_run_no_script_but_our_own(asked):
    _, headers, body = asked("/")
    policy = headers["content-security-policy"]
    own = re.findall(r"<(script|style)[^>]*>(.*?)</\1>", body, re.DOTALL)
    for name, text in own:
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{hashed}'" in policy.partition(f"{name}-src")[2].partition(";")[0]
    assert sorted(name for name, _ in own) == ["script", "script", "style"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "style=" not in re.sub(r"<script.*</script>", "", body, flags=re.DOTALL)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_question_that_cannot_be_answered_says_why(asked):
    status, _, body = asked("/api/ask/heatmap?run=first&stat=nrm&kind=grad")
    assert (status, "no statistic 'nrm'" in json.loads(body)["error"]) == (400, True)
    status, _, body = asked("/api/ask/about?run=nothing")
    assert (status, json.loads(body)["error"][:24]) == (404, "There is no run 'nothing'"[:24])


def test_it_listens_on_this_machine_only(server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
