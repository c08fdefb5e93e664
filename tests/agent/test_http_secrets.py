"""Who is let in: bearer tokens that rotate, and certificates on both sides."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from agent.errors import UsageError
from agent.source_config import HttpSourceConfig, TlsConfig
from agent.sources.http import reach
from agent.sources.http.bearer import Bearer, tokens_of
from agent.sources.http.tls import server_context
from tests.agent.http_bench import NATIVE, ask, listening, until
from tests.kafka_security import Security

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.agent.http_bench import Bench


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A file with one token, mounted as Kubernetes does: a link to a directory that is swapped."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "token").write_text("first-secret\n", encoding="utf-8")
    (tmp_path / "data").symlink_to(tmp_path / "one")
    return tmp_path / "data" / "token"


@pytest.fixture
def guarded(token: Path) -> Iterator[Bench]:
    """An intake that asks for the token."""
    with listening(token_file=token) as bench:
        yield bench


def swapped(token: Path, content: str) -> None:
    """Put another directory behind the link, in one step."""
    base = token.parent.parent
    (base / "two").mkdir()
    (base / "two" / "token").write_text(content, encoding="utf-8")
    (base / "fresh").symlink_to(base / "two")
    os.replace(base / "fresh", base / "data")  # noqa: PTH105 - a link over a link


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_the_right_token_is_let_in(guarded: Bench, scheme: str) -> None:
    """The scheme's case and the spaces after it do not matter."""
    assert guarded.post(authorization=f"{scheme} first-secret").status == 200


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer ", "Bearer second", "first-secret", "Basic first-secret", "Bearer \xe9"]
)
def test_anything_else_is_told_nothing_else(guarded: Bench, shown: str) -> None:
    """401 with WWW-Authenticate for every path, method and size, without the token, and nothing is taken in."""
    for request in ({}, {"path": "/other"}, {"method": "GET"}, {"body": bytes(2 << 20)}):
        answer = guarded.post(authorization=shown, **request)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="leadline"')
        assert b"secret" not in answer.body
    assert guarded.count(401) == 4
    assert guarded.read_all() == []


def test_a_refused_sender_may_go_on(guarded: Bench) -> None:
    """On the same connection the right token is let in."""
    connection = guarded.connect()
    assert [ask(connection, authorization=f"Bearer {each}").status for each in ("x", "first-secret")] == [401, 200]
    connection.close()


def test_a_rotated_token_counts_at_once(guarded: Bench, token: Path) -> None:
    """The next request after the file has changed needs the new token."""
    swapped(token, "second-secret")
    assert guarded.post(authorization="Bearer first-secret").status == 401
    assert guarded.post(authorization="Bearer second-secret").status == 200


def test_two_tokens_are_both_right(guarded: Bench, token: Path) -> None:
    """While senders change over, the file holds the old token and the new one."""
    swapped(token, "second-secret\r\n\r\nfirst-secret\n")
    for each in ("first-secret", "second-secret"):
        assert guarded.post(authorization=f"Bearer {each}").status == 200


@pytest.mark.parametrize("content", ["", " \n", "two words"])
def test_a_bad_rotation_keeps_the_token(guarded: Bench, token: Path, content: str) -> None:
    """A file that holds no token is counted once and logged without its content; the token before stays right."""
    with capture_logs() as logs:
        swapped(token, content)
        for _ in range(3):
            assert guarded.post(authorization="Bearer first-secret").status == 200
    assert guarded.source.status().events["token_unreadable"] == 1
    assert [entry["event"] for entry in logs] == ["token_unreadable"]
    assert "secret" not in str(logs)
    assert "two words" not in str(logs)


def test_a_vanished_token_file_keeps_the_token(guarded: Bench, token: Path) -> None:
    """Half-way through a rotation there may be no file."""
    with capture_logs():
        token.unlink()
        assert guarded.post(authorization="Bearer first-secret").status == 200
        token.write_text("third", encoding="utf-8")
        assert guarded.post(authorization="Bearer third").status == 200


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a b", "without spaces"),
        (b"\xff", "ASCII"),
        (b"a" * 70_000, "one"),
    ],
)
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    """At the start it is an error that names the file."""
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"^source\.http\.token_file: {path}: .*{words}"):
        tokens_of(path)


def test_a_token_is_not_shown(token: Path) -> None:
    """What holds it does not print it."""
    assert "secret" not in repr(Bearer(token, lambda: None))


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Security:
    """An authority, and certificates of a server and a client."""
    made = Security(tmp_path_factory.mktemp("tls"))
    made.write()
    return made


def tls(security: Security, **more: object) -> dict[str, object]:
    """The settings of an intake with that server's certificate."""
    here = security.directory
    return {"certificate": here / "broker.pem", "key": here / "broker.key"} | more


def trusting(security: Security, *, known: bool = False) -> ssl.SSLContext:
    """What a client knows; `known` says that it has a certificate of its own."""
    context = ssl.create_default_context(cafile=security.ca)
    if known:
        context.load_cert_chain(security.client_certificate, security.client_key)
    return context


def test_tls_is_spoken(security: Security) -> None:
    """A client that trusts the authority posts over TLS 1.2 or later; the URL says https."""
    with listening(tls=tls(security)) as bench:
        assert bench.source.url.startswith("https://127.0.0.1:")
        connection = bench.connect(trusting(security))
        assert ask(connection).status == 200
        assert connection.sock.version() in {"TLSv1.2", "TLSv1.3"}
        connection.close()
        assert bench.read_all() == [NATIVE]


def test_plain_http_is_not_answered_where_tls_is_spoken(security: Security) -> None:
    """A sender that speaks in the clear gets no answer; the next one is welcome."""
    with listening(tls=tls(security)) as bench:
        with pytest.raises((ConnectionError, OSError)):
            bench.post()
        connection = bench.connect(trusting(security))
        assert ask(connection).status == 200
        connection.close()


def test_a_certificate_is_asked_for(security: Security) -> None:
    """With `ca`, a client without a certificate of it is not let in, and one with it is."""
    with listening(tls=tls(security, ca=security.ca)) as bench:
        stranger = bench.connect(trusting(security))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(stranger)
        stranger.close()
        connection = bench.connect(trusting(security, known=True))
        assert ask(connection).status == 200
        connection.close()
        assert bench.read_all() == [NATIVE]


def test_a_renewed_certificate_is_shown(security: Security, tmp_path: Path) -> None:
    """A connection sees the files as they are now, half a renewal leaves the one before, and `ca` still holds."""
    files = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key"}
    shutil.copy(security.directory / "broker.pem", files["certificate"])
    shutil.copy(security.directory / "broker.key", files["key"])

    def shown() -> str:
        connection = bench.connect(trusting(security, known=True))
        connection.connect()
        try:
            return str(dict(pair for pairs in connection.sock.getpeercert()["subject"] for pair in pairs))
        finally:
            connection.close()

    with listening(tls=files | {"ca": security.ca}) as bench:
        assert "localhost" in shown()
        shutil.copy(security.client_key, files["key"])
        with capture_logs() as logs:
            assert "localhost" in shown()
            shutil.copy(security.client_certificate, files["certificate"])
            assert security.user in shown()
        stranger = bench.connect(trusting(security))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(stranger)
        stranger.close()
        assert [entry["event"] for entry in logs] == ["certificate_unreadable"]
        assert "does not belong" in logs[0]["problem"]
        assert bench.source.status().events["certificate_unreadable"] == 1


def test_a_key_with_a_password_is_opened(security: Security, tmp_path: Path) -> None:
    """The password comes from its file; without it, or with a wrong one, the start fails and asks nobody."""
    key, password = tmp_path / "locked.key", tmp_path / "password"
    password.write_text("open-sesame\n", encoding="utf-8")
    plain = security.directory / "broker.key"
    command = ["openssl", "pkey", "-in", plain, "-aes256", "-passout", f"file:{password}", "-out", key]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    with listening(tls=tls(security, key=key, key_password_file=password)) as bench:
        connection = bench.connect(trusting(security))
        assert ask(connection).status == 200
        connection.close()
    password.write_text("wrong", encoding="utf-8")
    for given in (None, password):
        config = TlsConfig.model_validate(tls(security, key=key, key_password_file=given))
        with pytest.raises(UsageError, match="the key's password is missing or wrong") as caught:
            server_context(config)
        assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"key": "client.key"}, "the key does not belong to the certificate"),
        ({"certificate": "broker.key"}, "not PEM"),
        ({"ca": "broker.key"}, r"source\.http\.tls\.ca: .* no certificate in it"),
        ({"key_password_file": "absent"}, "key_password_file: .*absent: cannot be read: No such file"),
    ],
)
def test_files_that_do_not_fit_are_named(security: Security, wrong: dict[str, str], words: str) -> None:
    """The check says which file and why."""
    files = {name: security.directory / value for name, value in wrong.items()}
    config = HttpSourceConfig.model_validate({"port": 0, "tls": tls(security, **files)})
    with pytest.raises(UsageError, match=words):
        reach(config)


def test_a_check_loads_the_certificate(security: Security) -> None:
    """What is well is said."""
    config = HttpSourceConfig.model_validate({"port": 0, "tls": tls(security)})
    assert reach(config) == "any free port of 127.0.0.1, certificate and key belong together"


def test_a_handshake_that_stalls_holds_nothing_up(security: Security) -> None:
    """A connection that never says hello neither delays others nor the stop."""
    with listening(tls=tls(security)) as bench:
        silent = bench.raw(b"")
        connection = bench.connect(trusting(security))
        assert ask(connection).status == 200
        connection.close()
        bench.read_all()
        bench.source.drain()
        until(lambda: not bench.source.drain())
    silent.close()
