// Streams of JetStream and their consumers.

import { detail, facts, figures, grid, h, panel, pathTo, stack, Table } from "./dom.js";
import { History, Rates, timeOf } from "./feed.js";
import {
  age,
  bytes,
  bytesParts,
  clock,
  count,
  countParts,
  dateTime,
  instantOf,
  limit,
  plural,
  rate,
  rateParts,
} from "./format.js";
import { plotsOf } from "./plots.js";

const NANO = 1e-9;

// All streams of a /jsz page, each with its account.
export const streamsOf = (page) =>
  (page.account_details ?? []).flatMap(({ name, stream_detail: streams = [] }) =>
    streams.map((each) => ({ ...each, account: name })),
  );

export const consumersOf = ({ account, consumer_detail: consumers = [] }) =>
  consumers.map((each) => ({ ...each, account }));

export const lagOf = (stream) =>
  Math.max(0, ...consumersOf(stream).map((each) => each.num_pending));

const seconds = (nanoseconds) => age(nanoseconds * NANO);

function filterField(label, onInput) {
  return h("input", { type: "search", placeholder: label, "aria-label": label, oninput: onInput });
}

// A table with a field that finds rows by their names.
export function filtered(table, label, nameOf) {
  let rows = null;
  const show = () => {
    const wanted = field.value.trim().toLowerCase();
    if (rows) table.show(rows.filter((row) => nameOf(row).toLowerCase().includes(wanted)));
  };
  const field = filterField(label, show);
  return {
    field,
    show(now) {
      rows = now;
      show();
    },
  };
}

export function streamsView() {
  const rates = new Rates();
  const table = new Table({
    key: (row) => `${row.account} ${row.name}`,
    empty: "No streams.",
    columns: [
      {
        title: "Stream",
        kind: "text",
        cell: (row) => [row.name, row.account],
        href: (row) => pathTo("streams", row.account, row.name),
        value: (row) => row.name,
      },
      {
        title: "Subjects",
        kind: "text wide",
        cell: (row) => (row.config.subjects ?? []).join(", ") || originOf(row),
      },
      { title: "In", cell: (row) => rate(row.rate), value: (row) => row.rate },
      {
        title: "Depth",
        cell: (row) => [count(row.state.messages), bytes(row.state.bytes)],
        value: (row) => row.state.messages,
      },
      {
        title: "Consumers",
        kind: "wide",
        cell: (row) => count(row.state.consumer_count),
        value: (row) => row.state.consumer_count,
      },
      { title: "Lag", cell: (row) => count(lagOf(row)), value: lagOf },
      { title: "Last message", kind: "wide", cell: (row) => clock(instantOf(row.state.last_ts)) },
    ],
  });
  const all = panel("Streams", table.root);
  const top = figures(["Streams", "Consumers", "Messages", "Stored", "API requests"]);
  const finder = filtered(table, "Find a stream", (row) => `${row.name} ${row.account}`);
  const feed = {
    path: "jsz?consumers=1&config=1",
    every: 1,
    onDocument(page) {
      table.emptyText = page.disabled ? "JetStream is not enabled." : "No streams.";
      const rows = streamsOf(page);
      for (const row of rows) {
        const { last_seq: last } = row.state;
        row.rate = rates.of(`${row.account} ${row.name}`, timeOf(page), { last }).last;
      }
      finder.show(rows);
      top.show("Streams", countParts(page.streams), `in ${plural(page.accounts, "account")}`);
      top.show("Consumers", countParts(page.consumers));
      top.show("Messages", countParts(page.messages));
      top.show("Stored", bytesParts(page.storage), `${bytes(page.memory)} in memory`);
      const { errors } = page.api;
      top.show(
        "API requests",
        countParts(page.api.total),
        `${count(errors)} refused`,
        errors ? "warn" : "",
      );
    },
    onTrouble: all.trouble,
  };
  const root = stack(top.root, h("div", { className: "bar" }, finder.field), all.root);
  return { title: "Streams", root, feeds: [feed] };
}

function originOf({ mirror, sources }) {
  if (mirror) return `mirror of ${mirror.name}`;
  return sources ? `from ${sources.map((each) => each.name).join(", ")}` : "";
}

function consumerTable() {
  return new Table({
    key: (row) => row.name,
    empty: "No consumers.",
    columns: [
      {
        title: "Consumer",
        kind: "text",
        cell: (row) => [
          row.name,
          row.config?.filter_subject ?? (row.config?.filter_subjects ?? []).join(", "),
        ],
        href: (row) => pathTo("streams", row.account, row.stream_name, row.name),
        value: (row) => row.name,
      },
      { title: "Delivered", kind: "wide", cell: (row) => rate(row.rate), value: (row) => row.rate },
      { title: "Lag", cell: (row) => count(row.num_pending), value: (row) => row.num_pending },
      {
        title: "Ack pending",
        cell: (row) => count(row.num_ack_pending),
        value: (row) => row.num_ack_pending,
      },
      {
        title: "Redelivered",
        kind: "wide",
        cell: (row) => count(row.num_redelivered),
        value: (row) => row.num_redelivered,
      },
      {
        title: "Waiting pulls",
        kind: "wide",
        cell: (row) => count(row.num_waiting),
        value: (row) => row.num_waiting,
      },
    ],
  });
}

// A feed of one stream; `show` gets it and the instant.
function streamFeed(account, name, details, show) {
  return {
    path: `jsz?${new URLSearchParams({ acc: account, consumers: 1, config: 1 })}`,
    onDocument(page) {
      const stream = streamsOf(page).find((each) => each.name === name);
      details.trouble(stream ? "" : "There is no such stream any more.");
      if (stream) show(stream, timeOf(page));
    },
    onTrouble: details.trouble,
  };
}

export function streamView({ parts: [account, name] }) {
  const history = new History(["in", "messages", "lag"]);
  const plots = plotsOf(
    history,
    ["Stored", rate, ["messages", "in"]],
    ["Depth", count, ["messages", "messages"]],
    ["Lag", count, ["slowest consumer", "lag"]],
  );
  const top = figures(["Messages in", "Messages", "Stored", "Subjects", "Lag"]);
  const about = facts();
  const details = panel("Configuration", about.root);
  const table = consumerTable();
  const consumers = panel("Consumers", table.root);
  const rates = new Rates();
  const feed = streamFeed(account, name, details, (stream, time) => {
    const { state, config } = stream;
    const now = rates.of("", time, { in: state.last_seq });
    const lag = lagOf(stream);
    history.add(time, { ...now, messages: state.messages, lag });
    top.show("Messages in", rateParts(now.in), `last at ${clock(instantOf(state.last_ts))}`);
    top.show("Messages", countParts(state.messages), `${state.first_seq}–${state.last_seq}`);
    top.show("Stored", bytesParts(state.bytes), config.storage);
    top.show("Subjects", countParts(state.num_subjects ?? 0));
    top.show("Lag", countParts(lag), "of the slowest consumer");
    about.show([
      ["Description", config.description],
      ["Subjects", (config.subjects ?? []).join(", ")],
      ["Origin", originOf(stream)],
      ["Retention", config.retention],
      ["Discard", config.discard],
      ["Most messages", limit(config.max_msgs)],
      ["Most bytes", limit(config.max_bytes, bytes)],
      ["Longest age", limit(config.max_age, seconds)],
      ["Per subject", limit(config.max_msgs_per_subject)],
      ["Duplicates", limit(config.duplicate_window, seconds)],
      ["Created", dateTime(instantOf(stream.created))],
    ]);
    const rows = consumersOf(stream);
    for (const row of rows)
      row.rate = rates.of(row.name, time, { sent: row.delivered.consumer_seq }).sent;
    table.show(rows);
  });
  return detail({
    lists: [["Streams", "streams"]],
    heading: name,
    note: account,
    top,
    plots,
    rest: grid("side", consumers, details),
    feed,
  });
}

export function consumerView({ parts: [account, streamName, name] }) {
  const history = new History(["lag", "unacknowledged", "sent", "acknowledged"]);
  const plots = plotsOf(
    history,
    ["Lag", count, ["messages", "lag"]],
    ["Pace", rate, ["delivered", "sent"], ["acked", "acknowledged"]],
    ["Ack pending", count, ["messages", "unacknowledged"]],
  );
  const top = figures(["Lag", "Delivered", "Ack pending", "Redelivered", "Waiting pulls"]);
  const about = facts();
  const details = panel("Configuration", about.root);
  const rates = new Rates();
  const feed = streamFeed(account, streamName, details, (stream, time) => {
    const found = consumersOf(stream).find((each) => each.name === name);
    details.trouble(found ? "" : "There is no such consumer any more.");
    if (!found) return;
    const { config = {}, delivered, ack_floor: floor } = found;
    const now = rates.of("", time, {
      sent: delivered.consumer_seq,
      acknowledged: floor.consumer_seq,
    });
    history.add(time, { ...now, lag: found.num_pending, unacknowledged: found.num_ack_pending });
    top.show("Lag", countParts(found.num_pending), "messages to deliver");
    top.show("Delivered", rateParts(now.sent), `up to ${delivered.stream_seq}`);
    top.show(
      "Ack pending",
      countParts(found.num_ack_pending),
      `all acked up to ${floor.stream_seq}`,
    );
    top.show(
      "Redelivered",
      countParts(found.num_redelivered),
      "",
      found.num_redelivered ? "warn" : "",
    );
    top.show(
      "Waiting pulls",
      countParts(found.num_waiting),
      config.deliver_subject ? "push consumer" : "pull consumer",
    );
    about.show([
      ["Description", config.description],
      ["Filter", config.filter_subject ?? (config.filter_subjects ?? []).join(", ")],
      ["Delivery subject", config.deliver_subject],
      ["Delivery", config.deliver_policy],
      ["Acknowledgement", config.ack_policy],
      ["Wait for it", config.ack_wait && seconds(config.ack_wait)],
      ["Most deliveries", limit(config.max_deliver)],
      ["Most ack pending", limit(config.max_ack_pending)],
      ["Paused", found.paused ? "yes" : ""],
      ["Created", dateTime(instantOf(found.created))],
      ["Last delivery", dateTime(instantOf(delivered.last_active))],
    ]);
  });
  return detail({
    lists: [
      ["Streams", "streams"],
      [streamName, "streams", account, streamName],
    ],
    heading: name,
    top,
    plots,
    rest: details.root,
    feed,
  });
}
