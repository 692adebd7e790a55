"""A browser without a window, driven over its debugging pipe: JSON, each message ended by a zero.

Nothing but the browser is needed. It reads commands from descriptor 3 and answers on descriptor 4.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Puts the two descriptors where the browser looks for them, and becomes the browser.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.closerange(5, 256)
os.execv(sys.argv[3], sys.argv[3:])
"""
# What is seen of the page with a contrast below 4.5, which WCAG AA asks for.
CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found[3] > 0) return found;
    }
    return [255, 255, 255, 255];
  };
  const weak = [];
  for (const e of document.querySelectorAll("body *:not(script):not(svg):not(svg *):not(option)")) {
    const words = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join("");
    if (!words || e.offsetParent === null) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${words.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return weak;
})()"""
PATIENCE = 60.0  # seconds for one answer, on a busy machine


def found() -> str | None:
    """The browser's program, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page in the browser: commands, values of expressions, and what went wrong in it."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.rest, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command."""
        number = self._send(method, parameters)
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)
            if answer.get("method") == "Page.javascriptDialogOpening":  # it would block the page
                self._send("Page.handleJavaScriptDialog", {"accept": False})

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        """Send one command; the number of its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        return self.number

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reading], [], [], max(end - time.monotonic(), 0.0))
            assert ready, "the browser does not answer"
            part = os.read(self.reading, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def open(self, page: Path) -> None:
        """Load a page from the disk and wait for it."""
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.until(f"document.readyState === 'complete' && location.href.endsWith('{page.name}')")

    def press(self, key: str, code: int = 0) -> None:
        """Press and release one key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        for letter in text:
            self.press(letter, ord(letter.upper()))

    def faults(self) -> list[dict[str, Any]]:
        """Exceptions, errors on the console and dialogs since the page was opened."""
        self.value("1")  # what happened before has been told by now
        bad = ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        return [
            event
            for event in self.events
            if event["method"] in bad
            or (
                event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error"
            )
            or (
                event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
            )
        ]

    def requests(self) -> list[str]:
        """The addresses that the page asked for since it was opened."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """A tab of a new browser, which ends with the context."""
    to_read, to_write = os.pipe(), os.pipe()  # the browser's input, the browser's output
    options = (
        "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
        f"--user-data-dir={profile}", "--window-size=1200,900", "--hide-scrollbars",
        "--disable-dev-shm-usage", "--disable-background-networking", "about:blank",
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(to_read[0]), str(to_write[1]), program, *options],
        pass_fds=(to_read[0], to_write[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_read[0])
    os.close(to_write[1])
    try:
        tab = Tab(to_write[0], to_read[1])
        target = tab.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = tab.ask("Target.attachToTarget", targetId=target, flatten=True)
        tab.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.ask(f"{domain}.enable")
        yield tab
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(to_write[0])
        os.close(to_read[1])
