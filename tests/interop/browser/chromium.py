"""
A headless Chromium, driven by Selenium, that loads pages of this machine.
"""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.interop.servers import PATIENCE, missing

#: As root there is no sandbox; the others keep Chromium from talking to anybody.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: Widths and heights: a desk, and a telephone.
DESK = (1280, 1180)
TELEPHONE = (390, 844)


class Browser:
    """
    A browser.

    @ivar driver: the driver of Selenium.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str, ready: str) -> None:
        """
        @param ready: a selector that matches an element when the page is ready.
        """
        self.driver.get(url)
        self.until(lambda: self.count(ready), ready)

    def resize(self, size: tuple[int, int], isTelephone: bool = False) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": size[0],
                "height": size[1],
                "deviceScaleFactor": 2 if isTelephone else 1,
                "mobile": isTelephone,
            },
        )

    def prefer(self, scheme: str) -> None:
        """
        @param scheme: C{light} or C{dark}.
        """
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """
        @return: what the script returns.
        """
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, *arguments: Any) -> Any:
        """
        @param script: the body of an asynchronous function.
        @return: its result. Its exception is the message of an error.
        """
        self.driver.set_script_timeout(PATIENCE)
        text = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {script} }})(...[...arguments].slice(0, -1))"
            ".then((value) => done({ value }), (error) => done({ error: String(error.stack) }))"
        )
        outcome = self.driver.execute_async_script(text, *arguments)
        assert "error" not in outcome, outcome["error"]
        return outcome.get("value")

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def text(self, selector: str = "body") -> str:
        """
        @return: the visible text of the first element; empty without one.
        """
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.run(script, selector))

    def click(self, selector: str) -> None:
        self.until(lambda: self.count(selector), selector)
        self.run("document.querySelector(arguments[0]).click()", selector)

    def press(self, label: str) -> None:
        """
        Click the button with this label.
        """
        button = (
            "[...document.querySelectorAll('button')].find((e) => e.innerText === arguments[0])"
        )
        self.until(lambda: self.run(f"return !!{button}", label), label)
        self.run(f"{button}.click()", label)

    def until(self, done: Callable[[], Any], what: str) -> Any:
        """
        @return: the first result that is true.
        @raise TimeoutError: with the text of the page, if there is none.
        """
        deadline = time.monotonic() + PATIENCE
        while not (answer := done()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}; the page shows:\n{self.text()}\n{self.messages()}")
            time.sleep(0.05)
        return answer

    def shows(self, *texts: str, selector: str = "main") -> None:
        """Wait until the page has all these texts."""

        def missing() -> list[str]:
            shown = self.text(selector)
            return [text for text in texts if text not in shown]

        self.until(lambda: not missing(), f"not all of {texts}")

    def messages(self) -> list[str]:
        """
        @return: the warnings and errors of the console since the last call.
        """
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def origins(self) -> set[str]:
        """
        @return: the origins of all requests since the last call.
        """
        origins = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urlsplit(message["params"]["request"]["url"])
                origins.add(f"{url.scheme}://{url.netloc}")
        return origins

    def isTooWide(self) -> bool:
        """
        @return: whether the page scrolls to the side.
        """
        script = "const d = document.documentElement; return d.scrollWidth > d.clientWidth"
        return bool(self.run(script))

    def fit(self, width: int) -> None:
        """
        Make the window as high as the page.
        """
        self.resize((width, 100))
        height = self.run("return document.documentElement.scrollHeight")
        self.resize((width, height))

    def screenshot(self, path: Path) -> None:
        options = {"format": "png", "optimizeForSpeed": False}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(directory: Path) -> Iterator[Browser]:
    """
    @param directory: a folder for the browser's profile.
    """
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        missing("no chromium or no chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={directory / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = Chrome(options=options, service=ChromeService(driver))
    try:
        yield Browser(browser)
    finally:
        browser.quit()
