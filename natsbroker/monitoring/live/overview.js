// The broker at a glance.

import { badge, figures, grid, h, panel, pathTo, stack, Table } from "./dom.js";
import { Rates, timeOf } from "./feed.js";
import {
  age,
  byteRate,
  byteRateParts,
  bytes,
  bytesParts,
  clock,
  count,
  countParts,
  durationOf,
  instantOf,
  percent,
  percentParts,
  plural,
  rate,
  rateParts,
  seconds,
} from "./format.js";
import { linkFeeds, linkTable } from "./links.js";
import { Plot } from "./plots.js";
import { consumersOf, streamsOf } from "./streams.js";

// Seconds for which a new slow consumer stands out.
const RECENT = 300;

const KINDS = ["route", "gateway", "leafnode"];
const FIGURES = [
  "Messages in",
  "Messages out",
  "Connections",
  "Subscriptions",
  "Slow consumers",
  "Processor",
];

function serverPlots(history) {
  const plot = (title, series, format, note) => new Plot({ title, history, series, format, note });
  const both = (what) => [
    { label: "in", column: `in_${what}` },
    { label: "out", column: `out_${what}` },
  ];
  return [
    plot("Messages", both("msgs"), rate, "Messages per second of clients and links"),
    plot("Data", both("bytes"), byteRate, "Bytes per second of clients and links"),
    plot(
      "Round trip",
      [
        { label: "slowest", column: "slowest" },
        { label: "median", column: "median" },
      ],
      seconds,
      "Round trips of the PINGs that the broker sends its clients",
    ),
    plot(
      "Answer time",
      [{ label: "varz", column: "answer" }],
      seconds,
      "Until the broker has answered /varz",
    ),
    plot("Processor", [{ label: "one core is 100 %", column: "cpu" }], percent),
    plot("Memory", [{ label: "resident", column: "mem" }], bytes),
  ];
}

function clientTable() {
  return new Table({
    key: (row) => row.cid,
    empty: "No clients are connected.",
    by: -1,
    columns: [
      {
        title: "Client",
        kind: "text",
        cell: (row) => [row.name || `client ${row.cid}`, row.account ?? "$G"],
        href: (row) => pathTo("connections", row.cid),
      },
      { title: "In", cell: (row) => [rate(row.rates.in_msgs), byteRate(row.rates.in_bytes)] },
      { title: "Out", cell: (row) => [rate(row.rates.out_msgs), byteRate(row.rates.out_bytes)] },
      { title: "Pending", kind: "wide", cell: (row) => bytes(row.pending_bytes) },
      { title: "RTT", kind: "wide", cell: (row) => seconds(durationOf(row.rtt)) },
    ],
  });
}

function closedTable() {
  return new Table({
    key: (row) => row.cid,
    empty: "No connection has ended yet.",
    by: -1,
    columns: [
      {
        title: "Client",
        kind: "text",
        cell: (row) => [row.name || `client ${row.cid}`, `after ${age(durationOf(row.uptime))}`],
        href: (row) => pathTo("connections", row.cid),
      },
      {
        title: "Reason",
        kind: "text",
        cell: (row) => badge(row.reason, row.reason.startsWith("Slow Consumer") ? "bad" : ""),
      },
      { title: "At", cell: (row) => clock(instantOf(row.stop)) },
    ],
  });
}

function lagTable() {
  return new Table({
    key: (row) => `${row.account} ${row.stream_name} ${row.name}`,
    empty: "No consumers.",
    limit: 6,
    columns: [
      {
        title: "Consumer",
        kind: "text",
        cell: (row) => [row.name, row.stream_name],
        href: (row) => pathTo("streams", row.account, row.stream_name, row.name),
      },
      { title: "Lag", cell: (row) => count(row.num_pending), value: (row) => row.num_pending },
      { title: "Ack pending", kind: "wide", cell: (row) => count(row.num_ack_pending) },
    ],
  });
}

export function overview({ history, server }) {
  const top = figures(FIGURES);
  const plots = serverPlots(history);
  const health = panel("Health", h("p", { className: "empty" }, "Loading …"));
  const links = linkTable(3, "This broker stands alone: no routes, gateways or leafnodes.");
  const cluster = panel("Cluster", links.root);
  const clients = clientTable();
  const busiest = panel("Busiest clients", clients.root);
  const closed = closedTable();
  const ends = panel("Recently closed", closed.root);
  const lag = lagTable();
  const streams = panel("JetStream", lag.root);
  const kinds = new Map();
  const rates = new Rates();
  const body = health.root.lastChild;

  const feeds = [
    ...linkFeeds(
      2,
      (kind, rows) => {
        kinds.set(kind, rows);
        if (kinds.size === 3) links.show(KINDS.flatMap((each) => kinds.get(each)));
      },
      (kind, text) => cluster.trouble(text),
    ),
    {
      path: "connz?sort=bytes_to&limit=6&auth=1",
      every: 2,
      onDocument(page) {
        for (const row of page.connections) {
          const { cid, in_msgs, out_msgs, in_bytes, out_bytes } = row;
          row.rates = rates.of(cid, timeOf(page), { in_msgs, out_msgs, in_bytes, out_bytes });
        }
        rates.keep(page.connections.map((row) => row.cid));
        clients.show(page.connections);
        busiest.note(`of ${count(page.total)}, by bytes received`);
      },
      onTrouble: busiest.trouble,
    },
    {
      path: "connz?state=closed&sort=stop&limit=6",
      every: 4,
      onDocument: (page) => closed.show(page.connections),
      onTrouble: ends.trouble,
    },
    {
      path: "jsz?consumers=1",
      every: 4,
      onDocument(page) {
        lag.emptyText = page.disabled ? "JetStream is not enabled." : "No consumers.";
        lag.show(streamsOf(page).flatMap(consumersOf));
        const sizes = [
          plural(page.streams, "stream"),
          plural(page.messages, "message"),
          bytes(page.bytes),
        ];
        streams.note(page.disabled ? "" : sizes.join(" · "));
      },
      onTrouble: streams.trouble,
    },
  ];

  function onServer() {
    const { varz, rates: now } = server;
    if (!varz) return;
    top.show("Messages in", rateParts(now.in_msgs), byteRateParts(now.in_bytes).join(" "));
    top.show("Messages out", rateParts(now.out_msgs), byteRateParts(now.out_bytes).join(" "));
    top.show(
      "Connections",
      countParts(varz.connections),
      `${count(varz.total_connections)} so far`,
    );
    top.show("Subscriptions", countParts(varz.subscriptions), "in all accounts");
    const slow = Object.entries(varz.slow_consumer_stats ?? {}).filter(([, number]) => number > 0);
    const text = slow.map(([kind, number]) => plural(number, kind.replace(/s$/, ""))).join(", ");
    top.show(
      "Slow consumers",
      countParts(varz.slow_consumers),
      text || "none so far",
      history.rise("slow", RECENT) ? "warn" : "",
    );
    top.show("Processor", percentParts(varz.cpu), `${bytesParts(varz.mem).join(" ")} of memory`);
    cluster.note(varz.cluster?.name ? `cluster ${varz.cluster.name}` : "");
  }

  function onHealth() {
    const page = server.health;
    if (!page) return;
    const errors = page.errors ?? (page.error ? [page] : []);
    const warnings = page.warnings ?? [];
    const isGood = page.status === "ok";
    const counts = [errors.length && plural(errors.length, "problem")];
    counts.push(warnings.length && plural(warnings.length, "warning"));
    health.root.classList.toggle("urgent", !isGood);
    health.note(counts.filter(Boolean).join(", "));
    body.className = "health";
    body.replaceChildren(
      isGood
        ? h("span", { className: "status good" }, "All checks pass")
        : h(
            "span",
            {},
            ...errors.map(({ error }) => h("span", { className: "status bad" }, error)),
          ),
      ...warnings.map(({ error }) => h("span", { className: "status warn" }, error)),
    );
  }

  const root = stack(
    top.root,
    grid("three", ...plots),
    grid("two", cluster, busiest, streams, ends),
    health.root,
  );
  return { title: "Overview", root, feeds, plots, onServer, onHealth };
}
