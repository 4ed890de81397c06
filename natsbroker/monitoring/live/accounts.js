// Accounts, and the subjects in which there is interest.

import {
  accountChoice,
  badge,
  choice,
  detail,
  facts,
  figures,
  grid,
  h,
  pager,
  panel,
  pathTo,
  stack,
  Table,
} from "./dom.js";
import { Rates, timeOf } from "./feed.js";
import { byteRate, count, countParts, percentParts, plural, rate } from "./format.js";
import { filtered } from "./streams.js";

const PAGE = 100;

export function accountsView() {
  const rates = new Rates();
  const side = (title, name) => ({
    title,
    cell: (row) => [rate(row.rates[`${name}_msgs`]), byteRate(row.rates[`${name}_bytes`])],
    value: (row) => row.rates[`${name}_msgs`],
  });
  const table = new Table({
    key: (row) => row.acc,
    empty: "No accounts.",
    by: 1,
    columns: [
      {
        title: "Account",
        kind: "text",
        cell: (row) => [row.name, row.acc === row.name ? "" : row.acc],
        href: (row) => pathTo("accounts", row.acc),
        value: (row) => row.name,
      },
      side("In", "in"),
      side("Out", "out"),
      { title: "Clients", cell: (row) => count(row.conns), value: (row) => row.conns },
      {
        title: "Leafnodes",
        kind: "wide",
        cell: (row) => count(row.leafnodes),
        value: (row) => row.leafnodes,
      },
      {
        title: "Subscriptions",
        kind: "wide",
        cell: (row) => count(row.num_subscriptions),
        value: (row) => row.num_subscriptions,
      },
      {
        title: "Slow",
        cell: (row) => (row.slow_consumers ? badge(count(row.slow_consumers), "warn") : "0"),
        value: (row) => row.slow_consumers,
      },
    ],
  });
  const all = panel("Accounts", table.root);
  const finder = filtered(table, "Find an account", (row) => `${row.name} ${row.acc}`);
  const feed = {
    path: "accstatz?unused=1",
    onDocument(page) {
      const rows = page.account_statz ?? [];
      for (const row of rows) {
        const { received, sent } = row;
        row.rates = rates.of(row.acc, timeOf(page), {
          in_msgs: received.msgs,
          in_bytes: received.bytes,
          out_msgs: sent.msgs,
          out_bytes: sent.bytes,
        });
      }
      finder.show(rows);
      all.note(plural(rows.length, "account"));
    },
    onTrouble: all.trouble,
  };
  const root = stack(h("div", { className: "bar" }, finder.field), all.root);
  return { title: "Accounts", root, feeds: [feed] };
}

function exchangeTable(empty) {
  return new Table({
    key: (row) => `${row.type} ${row.subject} ${row.account ?? ""} ${row.to ?? ""}`,
    empty,
    columns: [
      {
        title: "Subject",
        kind: "text",
        cell: (row) => [row.subject, row.to && row.to !== row.subject ? `as ${row.to}` : undefined],
        value: (row) => row.subject,
      },
      { title: "Kind", kind: "text wide", cell: (row) => row.type ?? "" },
      { title: "Account", kind: "text", cell: (row) => row.account ?? "all" },
    ],
  });
}

export function accountView({ parts: [name] }) {
  const about = facts();
  const details = panel("Account", about.root);
  const imported = exchangeTable("No imports.");
  const exported = exchangeTable("No exports.");
  const feed = {
    path: `accountz?${new URLSearchParams({ acc: name })}`,
    onDocument(page) {
      const found = page.account_detail;
      details.trouble(found ? "" : "There is no such account.");
      if (!found) return;
      const stats = found.sublist_stats ?? {};
      about.show([
        ["Clients", count(found.client_connections)],
        ["Leafnodes", count(found.leafnode_connections)],
        ["Subscriptions", count(found.subscriptions)],
        ["JetStream", found.jetstream_enabled ? "enabled" : "not enabled"],
        ["Look-ups", count(stats.num_matches)],
        ["Answered from cache", percentParts((stats.cache_hit_rate ?? 0) * 100).join(" ")],
        ["Largest fan-out", count(stats.max_fanout)],
        ["System account", found.is_system ? "yes" : ""],
        ["Expired", found.expired ? "yes" : ""],
      ]);
      imported.show(found.imports ?? []);
      exported.show(found.exports ?? []);
    },
    onTrouble: details.trouble,
  };
  const tables = stack(panel("Imports", imported.root).root, panel("Exports", exported.root).root);
  return detail({
    lists: [["Accounts", "accounts"]],
    heading: name,
    rest: grid("side", { root: tables }, details),
    feed,
  });
}

export function subjectsView() {
  const rates = new Rates();
  const wanted = { acc: "", test: "", whose: "clients", offset: 0 };
  let feed = null;
  const ask = (changes) => {
    Object.assign(wanted, changes);
    feed.ask(path());
  };
  const path = () => {
    const query = new URLSearchParams({ subs: 1, limit: PAGE, offset: wanted.offset });
    if (wanted.acc) query.set("acc", wanted.acc);
    // A question about a subject is answered in full.
    if (wanted.test) query.set("test", wanted.test);
    else if (wanted.whose === "clients") query.set("clients", 1);
    return `subsz?${query}`;
  };
  const table = new Table({
    key: (row) => row.key,
    empty: "No such subscriptions.",
    columns: [
      {
        title: "Subject",
        kind: "text",
        cell: (row) => [row.subject, row.qgroup ? `queue ${row.qgroup}` : undefined],
        value: (row) => row.subject,
      },
      {
        title: "Account",
        kind: "text wide",
        cell: (row) => row.account,
        value: (row) => row.account,
      },
      { title: "Rate", cell: (row) => rate(row.rate), value: (row) => row.rate },
      { title: "Delivered", cell: (row) => count(row.msgs), value: (row) => row.msgs },
      {
        title: "Client",
        cell: (row) => (row.cid ? count(row.cid) : "broker"),
        href: (row) => (row.cid ? pathTo("connections", row.cid) : ""),
      },
    ],
    by: 2,
  });
  const all = panel("Subscriptions", table.root);
  const top = figures(["Subscriptions", "Look-ups", "From cache", "Fan-out"]);
  const test = h("input", {
    type: "search",
    placeholder: "Who receives this subject?",
    "aria-label": "Who receives this subject?",
    onchange: () => ask({ test: test.value.trim(), offset: 0 }),
  });
  const pages = pager(PAGE, (offset) => ask({ offset }));
  const accounts = accountChoice(
    () => wanted.acc,
    (acc) => ask({ acc, offset: 0 }),
  );
  const subsz = {
    path: path(),
    onOpen: (opened) => (feed = opened),
    onDocument(page) {
      const rows = page.subscriptions_list ?? [];
      rows.forEach((row, place) => {
        row.key = row.cid
          ? `${row.cid} ${row.sid}`
          : `broker ${page.offset + place} ${row.account} ${row.subject}`;
        row.rate = rates.of(row.key, timeOf(page), { msgs: row.msgs }).msgs;
      });
      rates.keep(["", ...rows.map((row) => row.key)]);
      table.show(rows);
      const lookups = rates.of("", timeOf(page), { all: page.num_matches }).all;
      top.show(
        "Subscriptions",
        countParts(page.num_subscriptions),
        `${count(page.num_inserts)} made, ${count(page.num_removes)} ended`,
      );
      top.show("Look-ups", countParts(page.num_matches), rate(lookups));
      top.show(
        "From cache",
        percentParts(page.cache_hit_rate * 100),
        plural(page.num_cache, "subject"),
      );
      top.show(
        "Fan-out",
        countParts(page.max_fanout),
        `${page.avg_fanout.toFixed(1)} on the average`,
      );
      pages.show(page.offset, rows.length, page.total);
    },
    onTrouble: all.trouble,
  };
  const whose = choice(
    "Whose subscriptions",
    [
      ["clients", "Clients"],
      ["all", "All"],
    ],
    wanted.whose,
    (now) => ask({ whose: now, offset: 0 }),
  );
  const bar = h("div", { className: "bar" }, whose, accounts.root, test, pages.root);
  const root = stack(top.root, bar, all.root);
  return { title: "Subjects", root, feeds: [subsz, accounts.feed] };
}
