// The frame of the live page: header, navigation, and the view that the address names.

import { accountsView, accountView, subjectsView } from "./accounts.js";
import { channelsView, channelView } from "./channels.js";
import { connectionsView, connectionView } from "./connections.js";
import { choice, h, setText } from "./dom.js";
import { Feed, History, Rates, timeOf } from "./feed.js";
import { age, clock, durationOf } from "./format.js";
import { linksView } from "./links.js";
import { overview } from "./overview.js";
import { redrawAll, view as plots } from "./plots.js";
import { consumerView, streamsView, streamView } from "./streams.js";

// The views by the first part of the address and the number of parts behind it.
const VIEWS = {
  "": [overview],
  connections: [connectionsView, connectionView],
  accounts: [accountsView, accountView],
  subjects: [subjectsView],
  streams: [streamsView, null, streamView, consumerView],
  channels: [channelsView, channelView],
  links: [linksView],
};

const COLUMNS = [
  "in_msgs",
  "out_msgs",
  "in_bytes",
  "out_bytes",
  "slowest",
  "median",
  "answer",
  "cpu",
  "mem",
  "slow",
];

const SPANS = [
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
];
const INTERVALS = [
  [1000, "1 s"],
  [2000, "2 s"],
  [5000, "5 s"],
  [15000, "15 s"],
];
const THEMES = [
  ["", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"],
];

// Connections whose round trips are looked at: the median is known for twice as many.
const SLOWEST = 100;

const timing = { interval: 2000 };
const history = new History(COLUMNS);
const server = {
  varz: null,
  health: null,
  rates: {},
  roundTrip: {},
  seen: null,
  isLost: false,
  refusal: "",
};
const counters = new Rates();
let view = null;
let feeds = [];

const name = h("strong", {}, "natsbroker");
const about = h("span", { className: "note about" });
const state = h("span", { className: "state", role: "status" }, "Connecting …");
const banner = h("div", { className: "banner", role: "alert", hidden: true });
const nav = h("nav", { "aria-label": "Views" });
const main = h("main");

// Where the browser keeps no settings, they last as long as the page.
function remembered(key) {
  try {
    return localStorage.getItem(`natsbroker.${key}`);
  } catch (error) {
    console.info("settings are not kept:", error.message);
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(`natsbroker.${key}`, value);
  } catch (error) {
    console.info("settings are not kept:", error.message);
  }
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redrawAll();
}

function setting(label, values, key, initial, use) {
  const kept = values.map(([value]) => value).find((value) => String(value) === remembered(key));
  const chosen = kept ?? initial;
  use(chosen);
  const onChoose = (value) => {
    const [found] = values.find(([each]) => String(each) === String(value));
    use(found);
    remember(key, found);
  };
  return h(
    "div",
    { className: "setting" },
    h("span", {}, label),
    choice(
      label,
      values.map(([v, t]) => [String(v), t]),
      String(chosen),
      onChoose,
    ),
  );
}

function build() {
  for (const [path, title] of [
    ["", "Overview"],
    ["connections", "Connections"],
    ["accounts", "Accounts"],
    ["subjects", "Subjects"],
    ["streams", "Streams"],
    ["channels", "Channels"],
    ["links", "Links"],
  ]) {
    nav.append(h("a", { href: `#/${path}` }, title));
  }
  const settings = h(
    "footer",
    {},
    setting("Plots", SPANS, "span", 300, (span) => {
      plots.span = span;
      redrawAll();
    }),
    setting("Refresh", INTERVALS, "interval", 2000, (interval) => (timing.interval = interval)),
    setting("Colours", THEMES, "theme", "", useTheme),
    h("a", { href: "./" }, "All monitoring pages"),
  );
  const brand = h(
    "div",
    { className: "brand" },
    h("img", { src: "live/icon.svg", alt: "", width: 26, height: 26 }),
    h("div", {}, name, about),
  );
  document.body.append(h("div", { className: "top" }, brand, state, nav), banner, main, settings);
}

function onVarz(page, took) {
  const time = timeOf(page);
  // Another version has another page.
  if (server.varz && server.varz.natsbroker !== page.natsbroker) location.reload();
  if (server.varz && server.varz.server_id !== page.server_id) server.roundTrip = {};
  const { in_msgs, out_msgs, in_bytes, out_bytes } = page;
  // The first answer waits for the scripts of this page.
  const answer = server.varz ? took / 1000 : null;
  server.rates = counters.of(page.server_id, time, { in_msgs, out_msgs, in_bytes, out_bytes });
  server.varz = page;
  server.seen = Date.now() / 1000;
  const { cpu, mem, slow_consumers: slow } = page;
  history.add(time, { ...server.rates, ...server.roundTrip, answer, cpu, mem, slow });
  // Without a name of its own a server is called by its id.
  const { server_id: id, server_name: given } = page;
  const short = given === id ? `${id.slice(0, 8)}…` : given;
  setText(name, short);
  name.title = id;
  setText(about, `natsbroker ${page.natsbroker} · up ${age(durationOf(page.uptime))}`);
  document.title = `${short} · ${view.title}`;
  view.onServer?.();
}

function onRoundTrips(page) {
  const found = page.connections.map((row) => durationOf(row.rtt)).filter((each) => each > 0);
  const middle = Math.floor(page.total / 2);
  server.roundTrip = { slowest: found[0] ?? null, median: found[middle] ?? null };
}

function onHealthz(page) {
  server.health = page;
  showState();
  view.onHealth?.();
}

function showState() {
  const isHealthy = server.health?.status === "ok";
  const [text, kind] = server.isLost
    ? ["Reconnecting …", "bad"]
    : !server.health
      ? ["Connecting …", ""]
      : isHealthy
        ? ["Healthy", "good"]
        : ["Unhealthy", "warn"];
  setText(state, text);
  state.className = `state ${kind}`;
  banner.hidden = !server.isLost;
  const since = server.seen ? ` The figures are those of ${clock(server.seen)}.` : "";
  const problem = server.refusal
    ? `The broker refuses: ${server.refusal}.`
    : "The broker does not answer.";
  setText(banner, server.isLost ? problem + since : "");
  document.body.classList.toggle("lost", server.isLost);
}

function onVarzTrouble(text) {
  const isLost = text !== "";
  server.refusal = text;
  if (isLost === server.isLost) return;
  server.isLost = isLost;
  if (isLost) history.interrupt();
  // Nothing waits for its next attempt longer than the broker is away.
  if (!isLost) for (const feed of feeds) feed.ask();
  showState();
}

function open() {
  const [first = "", ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const make = VIEWS[first]?.[parts.length] ?? overview;
  for (const feed of feeds) feed.close();
  for (const plot of view?.plots ?? []) plot.close();
  view = make({ parts, history, server });
  main.replaceChildren(view.root);
  feeds = view.feeds.map((each) => {
    const feed = new Feed(each, timing);
    each.onOpen?.(feed);
    return feed;
  });
  for (const link of nav.children) {
    if (link.textContent === view.title) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  scrollTo(0, 0);
  view.onServer?.();
  view.onHealth?.();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
}

build();
open();
addEventListener("hashchange", open);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
const lasting = [
  { path: "varz", onDocument: onVarz, onTrouble: onVarzTrouble },
  { path: "healthz?details=1&warnings=1", every: 2, onDocument: onHealthz, onTrouble: () => {} },
  {
    path: `connz?sort=rtt&limit=${SLOWEST}`,
    every: 5,
    onDocument: onRoundTrips,
    onTrouble: () => {},
  },
].map((each) => new Feed(each, timing));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const feed of [...lasting, ...feeds]) feed.ask();
});
