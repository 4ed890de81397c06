// Client connections: a table that the broker sorts and pages, and one of them in detail.

import {
  accountChoice,
  choice,
  detail,
  facts,
  figures,
  grid,
  h,
  pager,
  panel,
  pathTo,
  setText,
  stack,
  Table,
} from "./dom.js";
import { History, Rates, timeOf } from "./feed.js";
import {
  age,
  byteRate,
  bytes,
  bytesParts,
  clock,
  count,
  countParts,
  dateTime,
  durationOf,
  instantOf,
  rate,
  rateParts,
  seconds,
  secondsParts,
} from "./format.js";
import { plotsOf } from "./plots.js";

const PAGE = 50;

// What is looked at stays when one comes back from a connection.
const chosen = { state: "open", sort: "cid", account: "", subject: "", offset: 0 };

const counters = ({ in_msgs, out_msgs, in_bytes, out_bytes }) => ({
  in_msgs,
  out_msgs,
  in_bytes,
  out_bytes,
});

const nameOf = (row) => row.name || `client ${row.cid}`;

function columnsFor(state, rated) {
  const isOpen = state === "open";
  const name = {
    title: "Client",
    kind: "text",
    sort: "cid",
    cell: (row) => [nameOf(row), `${row.ip}:${row.port}`],
    href: (row) => pathTo("connections", row.cid),
  };
  const account = {
    title: "Account",
    kind: "text wide",
    cell: (row) => [row.account ?? "$G", row.authorized_user ?? ""],
  };
  const traffic = (title, side, sort) => ({
    title,
    sort,
    cell: (row) =>
      isOpen
        ? [rate(rated.get(row.cid)?.[`${side}_msgs`]), bytes(row[`${side}_bytes`])]
        : [count(row[`${side}_msgs`]), bytes(row[`${side}_bytes`])],
  });
  const sides = [traffic("In", "in", "bytes_from"), traffic("Out", "out", "bytes_to")];
  if (!isOpen) {
    return [
      name,
      account,
      ...sides,
      { title: "Reason", kind: "text", sort: "reason", cell: (row) => row.reason },
      { title: "Lasted", kind: "wide", sort: "uptime", cell: (row) => age(durationOf(row.uptime)) },
      { title: "Ended", sort: "stop", kind: "wide", cell: (row) => clock(instantOf(row.stop)) },
    ];
  }
  return [
    name,
    account,
    ...sides,
    { title: "Pending", sort: "pending", cell: (row) => bytes(row.pending_bytes) },
    { title: "Subs", kind: "wide", sort: "subs", cell: (row) => count(row.subscriptions) },
    { title: "RTT", kind: "wide", sort: "rtt", cell: (row) => seconds(durationOf(row.rtt)) },
    { title: "Up", kind: "wide", sort: "uptime", cell: (row) => age(durationOf(row.uptime)) },
    { title: "Idle", kind: "wide", sort: "idle", cell: (row) => age(durationOf(row.idle)) },
  ];
}

function pathFor() {
  const { state, sort, account, subject, offset } = chosen;
  const query = new URLSearchParams({ state, sort, offset, limit: PAGE, auth: 1 });
  if (account) query.set("acc", account);
  if (account && subject) query.set("filter_subject", subject);
  return `connz?${query}`;
}

export function connectionsView() {
  const rates = new Rates();
  const rated = new Map();
  const all = panel("Connections", h("p", { className: "empty" }, "Loading …"));
  let table = null;
  let feed = null;
  const list = () => {
    const columns = columnsFor(chosen.state, rated);
    table = new Table({
      columns,
      key: (row) => row.cid,
      empty:
        chosen.state === "open" ? "No such connection is open." : "No such connection has ended.",
      by: columns.findIndex((each) => each.sort === chosen.sort),
      onSort: (sort) => ask({ sort, offset: 0 }),
    });
    all.root.lastChild.replaceWith(table.root);
  };
  const ask = (changes) => {
    Object.assign(chosen, changes);
    feed.ask(pathFor());
  };
  const accounts = accountChoice(
    () => chosen.account,
    (account) => ask({ account, offset: 0 }),
  );
  const subject = h("input", {
    type: "search",
    placeholder: "Subscribed to subject",
    "aria-label": "Subscribed to subject",
    hidden: !chosen.account,
    value: chosen.subject,
    onchange: () => ask({ subject: subject.value.trim(), offset: 0 }),
  });
  const pages = pager(PAGE, (offset) => ask({ offset }));
  const states = [
    ["open", "Open"],
    ["closed", "Closed"],
  ];
  const state = choice("State", states, chosen.state, (now) => {
    ask({ state: now, sort: now === "open" ? "cid" : "stop", offset: 0 });
    list();
  });
  const bar = h("div", { className: "bar" }, state, accounts.root, subject, pages.root);
  const root = stack(bar, all.root);
  list();

  const feeds = [
    {
      path: pathFor(),
      onOpen: (opened) => (feed = opened),
      onDocument(page) {
        const time = timeOf(page);
        for (const row of page.connections)
          rated.set(row.cid, rates.of(row.cid, time, counters(row)));
        rates.keep(page.connections.map((row) => row.cid));
        table.show(page.connections);
        pages.show(page.offset, page.num_connections, page.total);
        subject.hidden = !chosen.account;
      },
      onTrouble: all.trouble,
    },
    accounts.feed,
  ];
  return { title: "Connections", root, feeds };
}

function subscriptionTable() {
  return new Table({
    key: (row) => row.sid,
    empty: "No subscriptions.",
    columns: [
      { title: "Subject", kind: "text", cell: (row) => row.subject, value: (row) => row.subject },
      { title: "Queue", kind: "text wide", cell: (row) => row.qgroup ?? "" },
      { title: "Rate", cell: (row) => rate(row.rate) },
      { title: "Delivered", cell: (row) => count(row.msgs), value: (row) => row.msgs },
    ],
  });
}

export function connectionView({ parts: [cid] }) {
  const history = new History(["in_msgs", "out_msgs", "in_bytes", "out_bytes", "pending"]);
  const sides = (what) => ["in", "out"].map((side) => [side, `${side}_${what}`]);
  const plots = plotsOf(
    history,
    ["Messages", rate, ...sides("msgs")],
    ["Data", byteRate, ...sides("bytes")],
    ["Pending", bytes, ["bytes", "pending"]],
  );
  const top = figures(["Messages in", "Messages out", "Pending", "Round trip", "Idle"]);
  const about = facts();
  const details = panel("Connection", about.root);
  const table = subscriptionTable();
  const subscriptions = panel("Subscriptions", table.root);
  const title = h("h1", {}, `client ${cid}`);
  const rates = new Rates();
  const feed = {
    path: `connz?${new URLSearchParams({ cid, state: "any", auth: 1, subs: "detail" })}`,
    onDocument(page) {
      const [row] = page.connections;
      details.trouble(row ? "" : "The broker does not remember this connection.");
      if (!row) return;
      const time = timeOf(page);
      setText(title, nameOf(row));
      const now = rates.of("", time, counters(row));
      if (!row.stop) history.add(time, { ...now, pending: row.pending_bytes });
      top.show(
        "Messages in",
        rateParts(now.in_msgs),
        `${count(row.in_msgs)} · ${bytes(row.in_bytes)}`,
      );
      top.show(
        "Messages out",
        rateParts(now.out_msgs),
        `${count(row.out_msgs)} · ${bytes(row.out_bytes)}`,
      );
      top.show("Pending", bytesParts(row.pending_bytes), "not sent yet");
      top.show("Round trip", secondsParts(durationOf(row.rtt)), "of the last PING");
      top.show("Idle", [age(durationOf(row.idle)), ""], `up ${age(durationOf(row.uptime))}`);
      about.show([
        ["Ended", row.stop && `${row.reason}, ${dateTime(instantOf(row.stop))}`],
        ["Account", row.account ?? "$G"],
        ["User", row.authorized_user],
        ["Address", `${row.ip}:${row.port}`],
        ["Library", [row.lang, row.version].filter(Boolean).join(" ")],
        ["Protocol", row.type],
        ["TLS", [row.tls_version, row.tls_cipher_suite].filter(Boolean).join(" · ") || "none"],
        ["Connected", dateTime(instantOf(row.start))],
        ["Id", row.cid],
      ]);
      const listed = row.subscriptions_list_detail ?? [];
      for (const each of listed)
        each.rate = rates.of(`sub ${each.sid}`, time, { msgs: each.msgs }).msgs;
      table.show(listed);
      subscriptions.note(
        `${countParts(row.subscriptions).join(" ")}${row.truncated ? ", not all of them listed" : ""}`,
      );
    },
    onTrouble: details.trouble,
  };
  return detail({
    lists: [["Connections", "connections"]],
    heading: title,
    top,
    plots,
    rest: grid("side", subscriptions, details),
    feed,
  });
}
