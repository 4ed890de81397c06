// Channels of NATS Streaming.

import { badge, detail, figures, h, panel, pathTo, stack, Table } from "./dom.js";
import { ABSENT, History, Rates, timeOf } from "./feed.js";
import {
  byteRateParts,
  bytes,
  bytesParts,
  count,
  countParts,
  plural,
  rate,
  rateParts,
} from "./format.js";
import { plotsOf } from "./plots.js";
import { filtered } from "./streams.js";

const PAGE = 1024;
const NO_STREAMING = "This broker has no pages about NATS Streaming.";

// How far the slowest subscription of a channel is behind.
function lagOf(channel) {
  return Math.max(
    0,
    ...(channel.subscriptions ?? []).map((each) => channel.last_seq - each.last_sent),
  );
}

const unacknowledged = (channel) =>
  (channel.subscriptions ?? []).reduce((sum, each) => sum + each.pending_count, 0);

// Without the service its pages are not there.
const troubleOf = (show) => (text) => show(text === ABSENT ? NO_STREAMING : text);

export function channelsView() {
  const rates = new Rates();
  const table = new Table({
    key: (row) => row.name,
    empty: "No channels.",
    columns: [
      {
        title: "Channel",
        kind: "text",
        cell: (row) => row.name,
        href: (row) => pathTo("channels", row.name),
        value: (row) => row.name,
      },
      { title: "In", cell: (row) => rate(row.rate), value: (row) => row.rate },
      {
        title: "Depth",
        cell: (row) => [count(row.msgs), bytes(row.bytes)],
        value: (row) => row.msgs,
      },
      {
        title: "Subs",
        kind: "wide",
        cell: (row) => count(row.subscriptions?.length ?? 0),
        value: (row) => row.subscriptions?.length ?? 0,
      },
      { title: "Lag", cell: (row) => count(lagOf(row)), value: lagOf },
      {
        title: "Ack pending",
        kind: "wide",
        cell: (row) => count(unacknowledged(row)),
        value: unacknowledged,
      },
    ],
  });
  const all = panel("Channels", table.root);
  const top = figures(["Messages in", "Messages out", "Channels", "Stored", "Clients"]);
  const finder = filtered(table, "Find a channel", (row) => row.name);
  const trouble = troubleOf((text) => {
    if (text === NO_STREAMING) {
      table.emptyText = text;
      finder.show([]);
    } else {
      all.trouble(text);
    }
  });
  const feeds = [
    {
      path: `streaming/channelsz?subs=1&limit=${PAGE}`,
      optional: true,
      onDocument(page) {
        const rows = page.channels ?? [];
        for (const row of rows)
          row.rate = rates.of(row.name, timeOf(page), { last: row.last_seq }).last;
        rates.keep(rows.map((row) => row.name));
        finder.show(rows);
        all.note(
          page.total > rows.length ? `the first ${count(rows.length)} of ${count(page.total)}` : "",
        );
      },
      onTrouble: trouble,
    },
    {
      path: "streaming/serverz",
      optional: true,
      onDocument(page) {
        const { in_msgs, out_msgs, in_bytes, out_bytes } = page;
        const now = serverRates.of("", timeOf(page), { in_msgs, out_msgs, in_bytes, out_bytes });
        top.show("Messages in", rateParts(now.in_msgs), byteRateParts(now.in_bytes).join(" "));
        top.show("Messages out", rateParts(now.out_msgs), byteRateParts(now.out_bytes).join(" "));
        top.show("Channels", countParts(page.channels), page.state.toLowerCase());
        top.show("Stored", bytesParts(page.total_bytes), plural(page.total_msgs, "message"));
        top.show("Clients", countParts(page.clients), plural(page.subscriptions, "subscription"));
      },
      onTrouble: trouble,
    },
  ];
  const serverRates = new Rates();
  const root = stack(top.root, h("div", { className: "bar" }, finder.field), all.root);
  return { title: "Channels", root, feeds };
}

export function channelView({ parts: [name] }) {
  const history = new History(["in", "depth", "lag"]);
  const plots = plotsOf(
    history,
    ["Stored", rate, ["messages", "in"]],
    ["Depth", count, ["messages", "depth"]],
    ["Lag", count, ["slowest subscription", "lag"]],
  );
  const top = figures(["Messages in", "Depth", "Lag", "Ack pending"]);
  const table = new Table({
    key: (row) => row.ack_inbox,
    empty: "No subscriptions.",
    columns: [
      {
        title: "Client",
        kind: "text",
        cell: (row) => [row.client_id || "–", row.queue_name || row.durable_name],
        value: (row) => row.client_id,
      },
      { title: "State", kind: "text", cell: stateOf },
      { title: "Lag", cell: (row) => count(row.lag), value: (row) => row.lag },
      {
        title: "Ack pending",
        cell: (row) => [count(row.pending_count), `of ${count(row.max_inflight)}`],
        value: (row) => row.pending_count,
      },
      {
        title: "Last sent",
        kind: "wide",
        cell: (row) => count(row.last_sent),
        value: (row) => row.last_sent,
      },
    ],
  });
  const subscriptions = panel("Subscriptions", table.root);
  const rates = new Rates();
  const feed = {
    path: `streaming/channelsz?${new URLSearchParams({ channel: name, subs: 1 })}`,
    optional: true,
    onDocument(page) {
      const time = timeOf(page);
      const now = rates.of("", time, { in: page.last_seq });
      const lag = lagOf(page);
      history.add(time, { ...now, depth: page.msgs, lag });
      top.show("Messages in", rateParts(now.in), `last is ${page.last_seq}`);
      top.show("Depth", countParts(page.msgs), bytes(page.bytes));
      top.show("Lag", countParts(lag), "of the slowest subscription");
      top.show(
        "Ack pending",
        countParts(unacknowledged(page)),
        plural(page.subscriptions?.length ?? 0, "subscription"),
      );
      const rows = page.subscriptions ?? [];
      for (const row of rows) row.lag = Math.max(0, page.last_seq - row.last_sent);
      table.show(rows);
    },
    onTrouble: troubleOf((text) => {
      subscriptions.trouble(text);
      if (text) table.show([]);
    }),
  };
  return detail({
    lists: [["Channels", "channels"]],
    heading: name,
    top,
    plots,
    rest: subscriptions.root,
    feed,
  });
}

function stateOf(row) {
  if (row.is_stalled) return badge("stalled", "bad");
  if (row.is_offline) return badge("offline", "warn");
  return badge(row.is_durable ? "durable" : "online");
}
