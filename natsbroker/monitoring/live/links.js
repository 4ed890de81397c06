// Routes, gateways and leafnodes, on the overview and in a view of their own.

import { badge, panel, stack, Table } from "./dom.js";
import { Rates, timeOf } from "./feed.js";
import { age, byteRate, bytes, count, durationOf, rate, seconds } from "./format.js";

const MODES = { "Interest-Only": "good", Optimistic: "", Transitioning: "warn" };

function counters(row) {
  const { in_msgs = 0, out_msgs = 0, in_bytes = 0, out_bytes = 0 } = row;
  return { in_msgs, out_msgs, in_bytes, out_bytes };
}

const ROWS = {
  route: (page) =>
    (page.routes ?? []).map((each) => ({
      key: `route ${each.rid}`,
      name: each.remote_name || each.remote_id,
      note: each.account ? `account ${each.account}` : "pooled",
      mode: "",
      pending: each.pending_size,
      facts: each,
    })),
  gateway: (page) => {
    const rows = Object.entries(page.outbound_gateways ?? {}).map(([name, link]) => [
      "to",
      name,
      link,
    ]);
    for (const [name, links] of Object.entries(page.inbound_gateways ?? {})) {
      for (const link of links) rows.push(["from", name, link]);
    }
    return rows.map(([direction, name, link]) => ({
      key: `gateway ${direction} ${link.connection.cid}`,
      name,
      note: direction === "to" ? "outbound" : "inbound",
      mode: modesOf(link.accounts ?? []),
      accounts: (link.accounts ?? []).map((each) => ({ ...each, cluster: name, direction })),
      pending: link.connection.pending_bytes,
      facts: link.connection,
    }));
  },
  leafnode: (page) =>
    (page.leafs ?? []).map((each) => ({
      key: `leafnode ${each.id}`,
      name: each.name,
      note: `${each.is_spoke ? "hub" : "spoke"} in ${each.account}`,
      mode: "",
      pending: null,
      facts: each,
    })),
};

// The modes of a gateway's accounts, the most frequent one first.
function modesOf(accounts) {
  const found = new Map();
  for (const { interest_mode: mode } of accounts) found.set(mode, (found.get(mode) ?? 0) + 1);
  const order = [...found].sort(([, a], [, b]) => b - a);
  return order.map(([mode, number]) => (order.length > 1 ? `${mode} ×${number}` : mode)).join(", ");
}

const PATHS = { route: "routez", gateway: "gatewayz?accs=1", leafnode: "leafz" };

/**
 * Feeds of the three pages. `onRows` gets the rows of a kind with their rates.
 */
export function linkFeeds(every, onRows, onTrouble) {
  return Object.entries(PATHS).map(([kind, path]) => {
    const rates = new Rates();
    const onDocument = (page) => {
      const rows = ROWS[kind](page);
      for (const row of rows) {
        row.kind = kind;
        row.rates = rates.of(row.key, timeOf(page), counters(row.facts));
      }
      rates.keep(rows.map((row) => row.key));
      onRows(kind, rows, page);
    };
    return { path, every, onDocument, onTrouble: (text) => onTrouble(kind, text) };
  });
}

const traffic = (row, side) => [
  rate(row.rates[`${side}_msgs`]),
  byteRate(row.rates[`${side}_bytes`]),
];

const name = { title: "Server", kind: "text", cell: (row) => [row.name, row.note] };
const mode = {
  title: "Mode",
  kind: "text",
  cell: (row) => (row.mode ? badge(row.mode, MODES[row.mode] ?? "") : ""),
};
const roundTrip = { title: "RTT", kind: "wide", cell: (row) => seconds(durationOf(row.facts.rtt)) };
const rates = [
  { title: "In", cell: (row) => traffic(row, "in") },
  { title: "Out", cell: (row) => traffic(row, "out") },
];

export function linkTable(kinds, empty) {
  const kind = { title: "Link", kind: "text wide", cell: (row) => row.kind };
  const columns = [name, ...(kinds > 1 ? [kind] : []), mode, roundTrip, ...rates];
  return new Table({ key: (row) => row.key, empty, columns, by: -1 });
}

function fullTable(empty, hasMode) {
  const columns = [
    name,
    ...(hasMode ? [mode] : []),
    roundTrip,
    ...rates,
    {
      title: "Pending",
      kind: "wide",
      cell: (row) => (row.pending === null ? "–" : bytes(row.pending)),
    },
    { title: "Subscriptions", kind: "wide", cell: (row) => count(row.facts.subscriptions) },
    {
      title: "Address",
      kind: "text wide",
      cell: ({ facts }) => [`${facts.ip}:${facts.port}`, facts.compression ?? ""],
    },
    { title: "Up", kind: "wide", cell: (row) => age(durationOf(row.facts.uptime)) },
  ];
  return new Table({ key: (row) => row.key, empty, columns, by: -1 });
}

export function linksView() {
  const panels = {
    route: [panel("Routes"), fullTable("No routes: this broker is no member of a cluster.", false)],
    gateway: [panel("Gateways"), fullTable("No gateways to other clusters.", true)],
    leafnode: [panel("Leafnodes"), fullTable("No leafnodes.", false)],
  };
  const accounts = new Table({
    key: (row) => `${row.direction} ${row.cluster} ${row.name}`,
    empty: "No accounts on gateways.",
    columns: [
      { title: "Account", kind: "text", cell: (row) => row.name, value: (row) => row.name },
      {
        title: "Cluster",
        kind: "text",
        cell: (row) => [row.cluster, row.direction === "to" ? "outbound" : "inbound"],
      },
      {
        title: "Mode",
        kind: "text",
        cell: (row) => badge(row.interest_mode, MODES[row.interest_mode] ?? ""),
      },
      { title: "Wanted", cell: (row) => count((row.num_subs ?? 0) + (row.num_queue_subs ?? 0)) },
      { title: "Refused", kind: "wide", cell: (row) => count(row.no_interest_count ?? 0) },
      { title: "Switches", kind: "wide", cell: (row) => count(row.switches ?? 0) },
    ],
  });
  const modes = panel("Interest by account", accounts.root);
  const root = stack();
  for (const [each, table] of Object.values(panels)) {
    each.root.append(table.root);
    root.append(each.root);
  }
  root.append(modes.root);
  const feeds = linkFeeds(
    1,
    (kind, rows, page) => {
      const [each, table] = panels[kind];
      table.show(rows);
      if (kind !== "gateway") return;
      accounts.show(rows.flatMap((row) => row.accounts));
      each.note(page.name ? `this cluster is ${page.name}` : "");
    },
    (kind, text) => panels[kind][0].trouble(text),
  );
  return { title: "Links", root, feeds };
}
