"""A real Chromium, driven through its own protocol over a pair of pipes: no driver, no port, no package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Message = dict[str, Any]
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Chromium:
    """One browser process. Used from one thread: it reads until what it waits for has come."""

    def __init__(self, path: str, profile: Path) -> None:
        (ours, its_out), (its_in, our_out) = os.pipe(), os.pipe()
        # Well above 3 and 4, which are what the browser reads and writes.
        asks, answers = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 64) for each in (its_in, its_out))
        os.close(its_in)
        os.close(its_out)
        duplicates = [(os.POSIX_SPAWN_DUP2, asks, 3), (os.POSIX_SPAWN_DUP2, answers, 4)]
        silence = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2)]
        arguments = [path, *SWITCHES, f"--user-data-dir={profile}", "about:blank"]
        self._process = os.posix_spawn(
            path, arguments, os.environ, file_actions=[*duplicates, *silence], setpgroup=0
        )
        os.close(asks)
        os.close(answers)
        self._in = os.fdopen(ours, "rb", buffering=0)
        self._out = os.fdopen(our_out, "wb", buffering=0)
        self._buffer = b""
        self._number = 0
        self.events: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError, EOFError):
            self.call("Browser.close")
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._in.close()
        self._out.close()

    def call(self, method: str, session: str = "", **params: object) -> Message:
        """The result of one command. RuntimeError if the browser refuses it."""
        self._number += 1
        asked: Message = {"id": self._number, "method": method, "params": params}
        self._out.write(json.dumps(asked | ({"sessionId": session} if session else {})).encode() + b"\0")
        number = self._number
        while True:
            came = self._read()
            if came.get("id") == number:
                if "error" in came:
                    raise RuntimeError(f"{method}: {came['error']}")
                result: Message = came["result"]
                return result

    def wait(self, method: str, session: str) -> Message:
        """The next event of this kind that has not been waited for yet."""
        while True:
            for place, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events.pop(place)
            self._read()

    def _read(self) -> Message:
        while b"\0" not in self._buffer:
            more = os.read(self._in.fileno(), 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        came: Message = json.loads(line)
        if "method" in came:
            self.events.append(came)
        return came

    @contextmanager
    def page(self, width: int = 1200, *, dark: bool = False, script: bool = True) -> Iterator[Page]:
        """A page of its own, of this width."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        try:
            for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
                page.call(f"{domain}.enable")
            page.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            page.call("Emulation.setEmulatedMedia", features=[scheme])
            page.call("Emulation.setScriptExecutionDisabled", value=not script)
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)


class Page:
    """A page in the browser."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **params: object) -> Message:
        """The result of one command to this page."""
        return self._browser.call(method, self._session, **params)

    def open(self, url: str) -> None:
        """Go there, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self._browser.wait("Page.loadEventFired", self._session)

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the script says
        """What a script expression, a promise too, comes to. RuntimeError if it throws."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def happened(self, method: str) -> list[Message]:
        """What the browser has told of this page so far under this name."""
        self.value("0")  # whatever came before its answer has been read
        return [
            event["params"]
            for event in self._browser.events
            if event.get("method") == method and event.get("sessionId") == self._session
        ]

    def picture(self, *, whole: bool = True) -> bytes:
        """The page as PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])
