"""Dead letters in a real file: every byte comes back, nothing half-written counts, and nobody else may read it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from agent.errors import ServiceError
from agent.messages import DeadLetter, Message
from exporters.dead_letters.file import DeadLetterFile
from tests.services import program

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
EVERY_BYTE = bytes(range(256))
HEADERS = (("content-type", b"application/json"), ("Twice", b"\xff"), ("Twice", b""))
# A process of its own, whose files may not grow beyond a limit: a full disk, as far as a program can tell.
FILL = """
import resource, sys
from pathlib import Path

from agent.errors import ServiceError
from agent.messages import DeadLetter, Message
from exporters.dead_letters.file import DeadLetterFile

path, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
letters = DeadLetterFile(path, most_bytes=1 << 20)
small, large = (DeadLetter(Message(b"x" * size, f"t:0:{size}", 0.0), "not_json") for size in (10, limit))
letters.deliver([small])
try:
    letters.deliver([small, large])
except ServiceError as error:
    print(error)
letters.deliver([small])
"""


def letter(body: bytes | None, origin: str = "traffic:2:1041") -> DeadLetter:
    """A letter of a message with an awkward key and headers."""
    message = Message(body, origin, 1787306400.5, "traffic", HEADERS, key=EVERY_BYTE)
    return DeadLetter(message, "not_json", items=3)


def kept(path: Path) -> list[dict[str, object]]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def bodies(path: Path) -> list[bytes]:
    """What the messages in a file held."""
    return [b64decode(str(each["body"])) for each in kept(path)]


def mode(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the letters go."""
    return tmp_path / "letters" / "dead.jsonl"


def test_every_byte_comes_back(path: Path) -> None:
    """Body, key and headers are kept exactly, and beside them only where, why, how many and when."""
    DeadLetterFile(path, 1 << 20).deliver([letter(EVERY_BYTE)])
    (line,) = kept(path)
    assert b64decode(str(line.pop("body"))) == b64decode(str(line.pop("key"))) == EVERY_BYTE
    headers = line.pop("headers")
    assert isinstance(headers, list)
    assert tuple((name, b64decode(value)) for name, value in headers) == HEADERS
    assert line == {
        "origin": "traffic:2:1041",
        "reason": "not_json",
        "items": 3,
        "time": "2026-08-21T10:00:00.500Z",
    }


def test_a_tombstone_is_not_an_empty_body(path: Path) -> None:
    """No body and no key stay null; an empty one stays empty."""
    DeadLetterFile(path, 1 << 20).deliver([DeadLetter(Message(None, "t:0:1", 0.0), "tombstone"), letter(b"")])
    assert [(line["body"], line["key"] is None) for line in kept(path)] == [(None, True), ("", False)]


def test_only_its_owner_may_read_it(path: Path) -> None:
    """A new file and one that others could read are both for the owner alone."""
    letters = DeadLetterFile(path, 1 << 20)
    assert mode(path) == 0o600
    path.chmod(0o644)
    letters.deliver([letter(b"x")])
    assert mode(path) == 0o600


def test_another_agent_appends(path: Path) -> None:
    """What is there stays when the agent starts again."""
    for body in (b"first", b"second"):
        DeadLetterFile(path, 1 << 20).deliver([letter(body)])
    assert bodies(path) == [b"first", b"second"]


def test_a_line_cut_short_spoils_no_other(path: Path) -> None:
    """After a crash in the middle of a line the next letter begins a line of its own."""
    letters = DeadLetterFile(path, 1 << 20)
    letters.deliver([letter(b"first"), letter(b"second")])
    os.truncate(path, path.stat().st_size - 20)
    letters.deliver([letter(b"third")])
    first, torn, third = path.read_bytes().splitlines()
    assert [b64decode(json.loads(line)["body"]) for line in (first, third)] == [b"first", b"third"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(torn)


def test_a_file_taken_away_is_begun_anew(path: Path) -> None:
    """Whoever moves the file away to look at it loses no letter that comes meanwhile."""
    letters = DeadLetterFile(path, 1 << 20)
    letters.deliver([letter(b"first")])
    path.rename(path.with_name("looked-at"))
    letters.deliver([letter(b"second")])
    assert bodies(path) == [b"second"]
    assert mode(path) == 0o600


def test_it_is_bounded(path: Path) -> None:
    """A file that has grown too large is moved aside once; what that drops is logged, without a text."""
    letters = DeadLetterFile(path, most_bytes=1)
    aside = path.with_name("dead.jsonl.1")
    with capture_logs() as logs:
        letters.deliver([letter(b"first")])
        letters.deliver([letter(b"second"), letter(b"third")])
    assert not logs
    assert (bodies(aside), bodies(path)) == ([b"first"], [b"second", b"third"])
    dropped = aside.stat().st_size
    with capture_logs() as logs:
        letters.deliver([letter(b"fourth")])
    assert (bodies(aside), bodies(path)) == ([b"second", b"third"], [b"fourth"])
    expected = {"event": "dead_letters_dropped", "file": str(aside), "bytes": dropped, "most_bytes": 1}
    assert logs == [{**expected, "log_level": "warning"}]
    assert (mode(aside), mode(path)) == (0o600, 0o600)


def test_nothing_is_written_for_nothing(path: Path) -> None:
    """A delivery without letters does not touch the file."""
    letters = DeadLetterFile(path, most_bytes=1 << 20)
    path.unlink()
    letters.deliver([])
    letters.close()
    assert not path.exists()


def test_a_full_disk_is_a_plain_error(path: Path) -> None:
    """What does not fit is taken back whole and said with what to do; the next letter that fits is kept."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, path, "1000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == (
        f"dead letters cannot be kept in {path}: File too large. Make room for them there, or set "
        "`dead_letters.file` to another path.\n"
    )
    assert bodies(path) == [b"x" * 10] * 2
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "Is a directory. Mend that"),
        ("file/dead.jsonl", "File exists. Mend that"),
        ("pipe", "not a regular file. Mend that"),
    ],
)
def test_a_place_that_cannot_be_used_is_told_at_the_start(name: str, complaint: str, tmp_path: Path) -> None:
    """A directory, a path through a file and a pipe are refused before the first letter."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ServiceError, match=f"cannot be kept in .*: {complaint}, or set `dead_letters.file`"):
        DeadLetterFile(tmp_path / name, 1 << 20)


def test_a_file_that_became_something_else_is_a_plain_error(path: Path) -> None:
    """A delivery that cannot be written is an error of ours, which says nothing of the content."""
    letters = DeadLetterFile(path, 1 << 20)
    path.unlink()
    path.mkdir()
    with pytest.raises(ServiceError, match="Is a directory") as raised:
        letters.deliver([letter(b"secret")])
    assert "secret" not in str(raised.value)


def test_the_documented_commands_work(path: Path) -> None:
    """The commands of docs/RECORDS.md that look at letters and take bodies out do so, past a torn line too."""
    bash, _ = program("bash", "bash"), program("jq", "jq")
    DeadLetterFile(path, 1 << 20).deliver([letter(b'{"text": "good"}'), letter(None)])
    with path.open("ab") as file:
        file.write(b'{"torn')
    for command, expected in zip(_documented(), ("      2 not_json", '{"text": "good"}'), strict=True):
        done = subprocess.run([bash, "-c", command], capture_output=True, text=True, check=True, cwd=path.parent)
        written = path.parent / "again.jsonl"
        assert (done.stdout or written.read_text(encoding="utf-8")).rstrip("\n") == expected


def _documented() -> Sequence[str]:
    """The commands with jq in the section on dead letters."""
    section = (ROOT / "docs" / "RECORDS.md").read_text(encoding="utf-8").split("## Dead letters")[1]
    return [line for line in section.splitlines() if line.startswith("jq ")]
