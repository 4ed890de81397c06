"""
The live page in Chromium. It shows the values of the broker's pages, it is updated, and names that
others chose are shown as text.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.interop.browser.chromium import DESK, TELEPHONE, Browser, chromium
from tests.interop.browser.world import HOSTILE, HOSTILE_SUBJECT, SECRET, WORKERS, LiveWorld
from tests.interop.plainclients import Client
from tests.interop.servers import CHECKOUT, OURS_FAST, Server

#: Where the pictures go; docs/topics/live-page.md shows how the ones of the documents are renewed.
PICTURES = Path(os.environ.get("NATSBROKER_SCREENSHOTS", CHECKOUT / "build" / "screenshots"))

#: Seconds in which the plots of a picture grow.
EXPOSURE = 20 if "NATSBROKER_SCREENSHOTS" in os.environ else 3

VIEWS = (
    "#/",
    "#/connections",
    "#/accounts",
    "#/accounts/SHOP",
    "#/subjects",
    "#/streams",
    "#/streams/SHOP/ORDERS",
    "#/streams/SHOP/ORDERS/billing",
    "#/channels",
    "#/channels/invoices",
    "#/links",
)


class LivePage(Browser):
    """
    The live page of a world's broker.

    @ivar world: the broker and its clients.
    """

    def __init__(self, browser: Browser, world: LiveWorld) -> None:
        super().__init__(browser.driver)
        self.world = world
        self.origin = f"http://127.0.0.1:{world.hub.monitorPort}"

    def show(self, place: str) -> None:
        """
        @param place: the fragment of a view, as C{#/streams}.
        """
        self.run("location.hash = arguments[0]", place)
        first = place.removeprefix("#/").partition("/")[0]
        self.until(lambda: self.count(f'nav a[href="#/{first}"][aria-current]'), place)

    def json(self, path: str) -> Any:
        return self.world.hub.monitor(f"/nats/{path}")

    def figure(self, name: str) -> float:
        """
        @return: the large figure with this name, once it is shown.
        """
        script = """
            const found = [...document.querySelectorAll(".figures .name")]
              .find((each) => each.innerText === arguments[0]);
            return found?.nextElementSibling.innerText ?? "";
        """
        text = self.until(
            lambda: re.match(r"[\d.,]+", str(self.run(script, name)).replace(",", "")), name
        )
        return float(text[0])

    def rows(self, title: str = "") -> list[list[str]]:
        """
        @param title: the title of a panel; the first table without one.
        @return: the texts of its visible cells.
        """
        script = """
            const panel = [...document.querySelectorAll("main .panel")].find((each) =>
              arguments[0] ? each.querySelector("h2").innerText === arguments[0]
                           : each.querySelector("table"));
            return [...(panel?.querySelectorAll("tbody tr") ?? [])].map((row) =>
              [...row.cells].filter((cell) => cell.offsetParent).map((cell) => cell.innerText));
        """
        rows: list[list[str]] = self.run(script, title)
        return rows

    def names(self, title: str = "") -> list[str]:
        """
        @return: the first lines of a table's first column.
        """
        return [row[0].partition("\n")[0] for row in self.rows(title) if row]

    def sortBy(self, column: str) -> None:
        script = """
            [...document.querySelectorAll("th button")]
              .find((each) => each.innerText === arguments[0]).click();
        """
        self.run(script, column)

    def follow(self, text: str) -> None:
        """
        Click the link in a table with this text.
        """
        link = "[...document.querySelectorAll('td a')].find((a) => a.innerText === arguments[0])"
        self.until(lambda: self.run(f"return !!{link}", text), text)
        self.run(f"{link}.click()", text)

    def choose(self, label: str, value: str) -> None:
        """Set the value of a field."""
        script = """
            const field = document.querySelector(`[aria-label="${arguments[0]}"]`);
            const isReady = !field.disabled &&
              (!field.options || [...field.options].some((each) => each.value === arguments[1]));
            if (!isReady) return false;
            field.value = arguments[1];
            for (const name of ["input", "change"]) field.dispatchEvent(new Event(name));
            return true;
        """
        self.until(lambda: self.run(script, label, value), label)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    """The page, which stays open for all tests, because its plots need time."""
    directory = tmp_path_factory.mktemp("livepage")
    with chromium(directory) as browser:
        world = LiveWorld(directory)
        try:
            world.start()
            world.becomeSlow()
            made = LivePage(browser, world)
            made.resize(DESK)
            made.prefer("light")
            made.origins()
            made.open(f"{made.origin}/nats/live", "main .plot canvas")
            made.press("1 s")
            yield made
        finally:
            world.stop()


def test_overview(page: LivePage) -> None:
    """The overview has the figures of /varz, the links, the clients and the problems."""
    page.show("#/")
    varz = page.json("varz")
    assert page.figure("Connections") == varz["connections"] == 10
    assert page.figure("Subscriptions") == varz["subscriptions"]
    assert page.figure("Slow consumers") == varz["slow_consumers"] == 1
    assert page.count(".figures .warn") == 0
    assert page.text("header, .top").startswith("east-1")
    page.shows("Healthy", selector=".state")
    page.shows("All checks pass")
    page.until(lambda: len(page.rows("Cluster")) == 5, "links")
    assert page.names("Cluster") == ["east-2", "east-2", "west", "west", "edge-1"]
    assert [row[2] for row in page.rows("Cluster")][2:4] == ["Interest-Only"] * 2
    assert set(page.names("Busiest clients")) >= {"kitchen display", "dashboard", "stock"}
    page.until(lambda: page.rows("Recently closed"), "closed connections")
    ends = {row[0].splitlines()[0]: row[1] for row in page.rows("Recently closed")}
    assert ends["sleepy"] == "Slow Consumer (Pending Bytes)"
    assert ends["flooder"] == "Client Closed"
    page.until(lambda: page.names("JetStream") == ["archive", "billing"], "consumers by their lag")


def test_plotsMove(page: LivePage) -> None:
    """Rates are those of the clients, and each plot is drawn again with every answer."""
    page.show("#/")
    script = """
        return [...document.querySelectorAll("main .plot canvas")].map((each) => each.toDataURL());
    """
    before = page.run(script)
    assert len(before) == 6
    page.until(lambda: all(a != b for a, b in zip(before, page.run(script), strict=True)), "plots")
    first = page.json("varz")
    time.sleep(3)
    second = page.json("varz")
    rate = (second["in_msgs"] - first["in_msgs"]) / 3
    assert rate / 4 < page.figure("Messages in") < rate * 4
    assert page.figure("Messages out") > page.figure("Messages in") > 0


def numberOf(page: LivePage, name: str) -> int:
    """
    @return: the number of a connection.
    """
    rows = page.json("connz")["connections"]
    return next(int(row["cid"]) for row in rows if row.get("name") == name)


def test_connections(page: LivePage) -> None:
    """Connections can be sorted and filtered, open and closed ones."""
    page.show("#/connections")
    everyone = ["edge-1", "till-7", "kitchen display", HOSTILE, "meter gateway", "channel client"]
    # The leafnode of another server connects when it does, so its place among clients is not known.
    inOrder = [row["name"] for row in page.json("connz?sort=cid")["connections"]]
    assert set(inOrder) == {*everyone, *WORKERS}
    page.until(lambda: page.names() == inOrder, "connections")
    page.shows("1\u201311 of 11")
    page.sortBy("Subs")
    page.until(lambda: page.names()[:1] == ["kitchen display"], "by subscriptions")
    page.choose("Account", "METERS")
    page.until(lambda: set(page.names()) == {"edge-1", "meter gateway"}, "account METERS")
    page.choose("Account", "SHOP")
    page.choose("Subscribed to subject", "shop.prices")
    receivers = {"kitchen display", "pricing-1", "pricing-2", "dashboard"}
    page.until(lambda: set(page.names()) == receivers, "subject shop.prices")
    page.choose("Subscribed to subject", "")
    page.choose("Account", "")
    page.press("Closed")
    page.until(lambda: {"sleepy", "flooder"} <= set(page.names()), "closed connections")
    page.press("Open")
    page.until(lambda: "till-7" in page.names(), "open connections")


def test_oneConnection(page: LivePage) -> None:
    """The view of a connection has its figures, its subscriptions and its user."""
    page.show("#/connections")
    page.follow("kitchen display")
    page.shows("kitchen display", selector="h1")
    page.until(lambda: len(page.rows("Subscriptions")) == 6, "subscriptions")
    rows = {row[0]: row for row in page.rows("Subscriptions")}
    assert rows["shop.prices"][1] == "pricing"
    page.until(lambda: page.figure("Messages out") > 10, "messages")
    (row,) = page.json(f"connz?cid={numberOf(page, 'kitchen display')}&auth=1")["connections"]
    for text in (row["account"], row["authorized_user"], f"{row['ip']}:{row['port']}"):
        page.shows(text)
    page.show("#/")
    page.follow("sleepy")
    page.shows("Slow Consumer (Pending Bytes)", "sleepy")
    page.show("#/connections/4711")
    page.shows("The broker does not remember this connection.")


def test_stream(page: LivePage) -> None:
    """A stream and a consumer can be opened from the list, and their figures grow."""
    page.show("#/streams")
    page.until(lambda: page.names() == ["ORDERS", "PRICES"], "streams")
    page.choose("Find a stream", "pric")
    page.until(lambda: page.names() == ["PRICES"], "a stream by its name")
    page.choose("Find a stream", "")
    page.follow("ORDERS")
    page.shows("ORDERS", selector="h1")
    depth = page.figure("Messages")
    page.until(lambda: page.figure("Messages") > depth, "depth")
    (stream,) = (
        stream
        for account in page.json("jsz?acc=SHOP&consumers=1")["account_details"]
        for stream in account["stream_detail"]
        if stream["name"] == "ORDERS"
    )
    page.until(lambda: page.figure("Messages") >= stream["state"]["messages"], "messages of /jsz")
    assert page.figure("Subjects") == stream["state"]["num_subjects"] == 3
    page.shows("shop.orders.*", "limits", "1h 0m")
    page.follow("billing")
    page.shows("billing", selector="h1")
    page.until(lambda: page.figure("Delivered") > 0, "delivery")
    archive = page.json("jsz?acc=SHOP&consumers=1")
    page.show("#/streams/SHOP/ORDERS/archive")
    page.shows("archive", selector="h1")
    assert page.figure("Delivered") == 0
    lags = [
        consumer["num_pending"]
        for stream in archive["account_details"][0]["stream_detail"]
        for consumer in stream.get("consumer_detail", ())
        if consumer["name"] == "archive"
    ]
    page.until(lambda: page.figure("Lag") >= lags[0], "lag")
    page.show("#/streams/SHOP/NOPE")
    page.shows("There is no such stream any more.")


def test_accounts(page: LivePage) -> None:
    """The view of accounts has their traffic, and that of one account has its imports."""
    page.show("#/accounts")
    page.until(lambda: set(page.names()) == {"SHOP", "METERS", "SYS", "$G"}, "accounts")
    page.until(lambda: page.names()[:1] == ["SHOP"], "the busiest account first")
    shop = {row[0].splitlines()[0]: row for row in page.rows()}["SHOP"]
    assert (shop[3], shop[-1]) == ("8", "1")
    page.follow("SHOP")
    page.shows("$SYS.REQ.USER.SHOP.INFO")


def isOwn(subject: str) -> bool:
    """
    @return: whether a service inside the broker subscribes to this subject.
    """
    return subject.startswith("$JS.API.")


def test_subjects(page: LivePage) -> None:
    """The view of subjects has the subscriptions of an account, and the receivers of a subject."""
    page.show("#/subjects")
    page.choose("Account", "SHOP")
    page.until(lambda: page.names() and not any(map(isOwn, page.names())), "those of clients")
    page.press("All")
    page.until(lambda: any(map(isOwn, page.names())), "those of the broker too")
    page.choose("Who receives this subject?", "shop.orders.paid")
    patterns = {"shop.orders.*", "shop.orders.paid", "shop.>"}
    page.until(lambda: set(page.names()) == patterns, "receivers")
    # A stream in the broker, and clients.
    numbers = {str(numberOf(page, label)) for label in ("kitchen display", "dashboard", "audit")}
    page.until(lambda: {row[-1] for row in page.rows()} == {"broker", *numbers}, "receivers")
    page.choose("Who receives this subject?", "not valid..")
    page.shows("invalid test subject")
    assert [message for message in page.messages() if "400 (Bad Request)" not in message] == []
    page.choose("Who receives this subject?", "")
    page.until(lambda: HOSTILE_SUBJECT in page.names(), "all subjects")


def test_links(page: LivePage) -> None:
    """The view of links has routes, gateways and leafnodes, and the mode of each account."""
    page.show("#/links")
    page.until(lambda: page.names("Routes") == ["east-2", "east-2"], "routes")
    page.until(lambda: page.names("Gateways") == ["west", "west"], "gateways")
    page.until(lambda: page.names("Leafnodes") == ["edge-1"], "leafnodes")
    page.shows("spoke in METERS")
    page.until(lambda: len(page.rows("Interest by account")) == 8, "accounts of gateways")
    assert {row[2] for row in page.rows("Interest by account")} == {"Interest-Only"}


def test_channels(page: LivePage) -> None:
    """The view of channels has their depth, their subscriptions and how far these are behind."""
    page.show("#/channels")
    page.until(lambda: page.names() == ["invoices", "receipts"], "channels")
    assert page.figure("Clients") == 1
    page.follow("invoices")
    page.shows("invoices", selector="h1")
    depth = page.figure("Depth")
    page.until(lambda: page.figure("Depth") > depth, "depth")
    # 25 messages are in flight, and the client acknowledges none.
    page.until(lambda: page.figure("Ack pending") == 25, "ack pending")
    assert page.figure("Lag") > 0
    page.shows("invoicing", "ledger", "stalled")


def test_hostileNames(page: LivePage) -> None:
    """HTML in a client's name, a subject or a description is shown as text, and has no effect."""
    for place, text in (
        ("#/connections", HOSTILE),
        (f"#/connections/{numberOf(page, HOSTILE)}", HOSTILE_SUBJECT),
        ("#/streams/SHOP/PRICES", HOSTILE),
    ):
        page.show(place)
        page.shows(text)
        assert page.count("img[src=x], main img, main script") == 0
        assert "owned" not in page.driver.title


def test_noSecrets(page: LivePage) -> None:
    """No view shows a password."""
    for place in VIEWS:
        page.show(place)
        page.until(lambda: "Loading" not in page.text("main"), place)
        assert SECRET not in page.run("return document.documentElement.outerHTML")


@pytest.mark.parametrize("place", VIEWS)
def test_telephone(page: LivePage, place: str) -> None:
    """On a telephone no view is wider than the screen."""
    page.resize(TELEPHONE, isTelephone=True)
    try:
        page.show(place)
        page.until(lambda: "Loading" not in page.text("main"), place)
        assert not page.isTooWide()
        script = """
            return [...document.querySelectorAll("main .table")]
              .filter((each) => each.scrollWidth > each.clientWidth)
              .map((each) => each.innerText);
        """
        assert page.run(script) == []
    finally:
        page.resize(DESK)


def test_darkScheme(page: LivePage) -> None:
    """The colours are those of the system, until the user chooses others."""

    def ground() -> int:
        text = page.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", text)[:3]))

    page.show("#/")
    assert ground() > 600
    page.prefer("dark")
    try:
        page.until(lambda: ground() < 150, "dark by preference")
        page.press("Light")
        page.until(lambda: ground() > 600, "light by choice")
        page.run("location.reload()")
        page.until(lambda: page.count("main .plot canvas") == 6, "the page again")
        assert ground() > 600
        page.press("Auto")
        page.until(lambda: ground() < 150, "dark again")
    finally:
        page.prefer("light")


def test_formats(page: LivePage) -> None:
    """Numbers, sizes and durations are short, and have units."""
    texts = page.wait(
        """
        const f = await import("/nats/live/format.js");
        return [
          f.count(0), f.count(9999), f.count(10000), f.count(999999), f.count(12345678),
          f.count(undefined), f.rate(0), f.rate(12.34), f.rate(54321), f.bytes(1023), f.bytes(1024),
          f.bytes(5e9), f.byteRate(2048), f.seconds(0.000440), f.seconds(0.0123), f.seconds(2.5),
          f.percent(12.345), f.age(59), f.age(93784), f.limit(-1), f.limit(50000),
          f.durationOf("1m2.5s"), f.durationOf("440µs"), f.durationOf(""),
          f.instantOf("0001-01-01T00:00:00Z"),
        ];
        """
    )
    thin = "\u202f"
    assert [text.replace(thin, " ") if isinstance(text, str) else text for text in texts] == [
        *("0", "9,999", "10.0 k", "1.00 M", "12.3 M", "\u2013"),
        *("0 /s", "12.3 /s", "54.3 k/s", "1023 B", "1.00 KiB", "4.66 GiB", "2.00 KiB/s"),
        *("440 µs", "12.3 ms", "2.50 s", "12.3 %", "59s", "1d 2h", "no limit", "50.0 k"),
        *(62.5, pytest.approx(0.00044), None, None),
    ]


def test_rates(page: LivePage) -> None:
    """A rate is shown from the second value on, except after a restart of its counter."""
    rates = page.wait(
        """
        const { Rates } = await import("/nats/live/feed.js");
        const rates = new Rates();
        return [[1, 10], [3, 30], [4, 5], [5, 6]].map(([time, n]) => rates.of("a", time, { n }).n);
        """
    )
    assert rates == [None, 10, None, 1]


def test_history(page: LivePage) -> None:
    """A history drops its oldest values, and a line has a gap while the broker was away."""
    points = page.wait(
        """
        const { History } = await import("/nats/live/feed.js");
        const history = new History(["a"], 4);
        for (const time of [1, 2, 2, 3]) history.add(time, { a: time });
        history.interrupt();
        history.add(9, { a: 9 });
        return history.data(["a"]);
        """
    )
    assert points == [[2, 3, 3.001, 9], [2, 3, None, 9]]


def test_rise(page: LivePage) -> None:
    """
    A counter has risen within a time only if it grew, and not by a restart or while the broker was
    away.
    """
    points = page.wait(
        """
        const { History } = await import("/nats/live/feed.js");
        const history = new History(["a"]);
        const rises = [history.rise("a", 10)];
        for (const [time, a] of [[1, 5], [2, 6], [8, 8], [9, null], [13, 8], [14, 0]]) {
          history.add(time, { a });
          rises.push(history.rise("a", 10));
        }
        return rises;
        """
    )
    assert points == [0, 0, 1, 3, 3, 0, 0]


def test_bounded(page: LivePage) -> None:
    """No request of the page asks for all connections or subscriptions, however many there are."""
    page.show("#/connections")
    page.until(lambda: page.names(), "connections")
    page.show("#/subjects")
    page.until(lambda: page.names(), "subjects")
    names = page.run("return performance.getEntriesByType('resource').map((each) => each.name)")
    seen = set()
    for url in map(urlsplit, names):
        name = url.path.rpartition("/")[2]
        if name in ("connz", "subsz"):
            seen.add(name)
            query = parse_qs(url.query)
            assert "cid" in query or int(query["limit"][0]) <= 100, url
    assert seen == {"connz", "subsz"}


def test_pictures(page: LivePage) -> None:
    """The pictures for the documents can be taken."""
    page.show("#/")
    time.sleep(EXPOSURE)
    page.fit(DESK[0])
    time.sleep(1)
    page.screenshot(PICTURES / "live-overview.png")
    page.prefer("dark")
    page.resize(TELEPHONE, isTelephone=True)
    time.sleep(2)
    page.screenshot(PICTURES / "live-telephone.png")
    page.resize(DESK)
    page.show("#/streams/SHOP/ORDERS")
    time.sleep(EXPOSURE)
    page.fit(DESK[0])
    time.sleep(1)
    page.screenshot(PICTURES / "live-stream.png")
    page.resize(DESK)
    page.prefer("light")
    assert len(list(PICTURES.glob("live-*.png"))) == 3


def test_quietConsole(page: LivePage) -> None:
    """Nothing is written to the console during the tests, and no request goes to another origin."""
    assert page.messages() == []
    local = {origin for origin in page.origins() if not origin.startswith(("chrome:", "data:"))}
    assert local == {page.origin}


CONFIG = 'http: "127.0.0.1:$PORT"'


def test_brokerGone(tmp_path: Path) -> None:
    """
    The page reports that the broker is away, and continues when it is back. In lame duck mode the
    page shows which check fails.
    """
    server = Server(OURS_FAST, tmp_path, CONFIG.replace("$PORT", "-1"))
    server.start()
    server._config = CONFIG.replace("$PORT", str(server.monitorPort))
    try:
        with chromium(tmp_path) as browser:
            browser.open(f"http://127.0.0.1:{server.monitorPort}/live", "main .plot canvas")
            browser.press("1 s")
            browser.shows("Healthy", selector=".state")
            browser.shows("This broker stands alone", "JetStream is not enabled.")
            identity = str(server.monitor("/varz")["server_id"])
            assert browser.text(".brand strong") == f"{identity[:8]}…"
            server.stop()
            browser.shows("Reconnecting …", selector=".state")
            browser.shows("The broker does not answer. The figures are those", selector=".banner")
            server.start()
            browser.shows("Healthy", selector=".state")
            assert browser.text(".banner") == ""
            client = Client(server)
            server.signal("USR2")
            browser.shows("Unhealthy", selector=".state")
            browser.shows("not ready for connections")
            client.close()
    finally:
        server.stop()
