// Elements, panels, facts and tables. Everything from the broker becomes text here: subjects and
// names of clients are made by strangers.

import { whole } from "./format.js";

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((each) => each !== null));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function quantity([value, unit]) {
  return h("span", { className: "quantity" }, value, h("small", {}, unit && `\u202f${unit}`));
}

export function badge(text, kind = "") {
  return h("span", { className: `badge ${kind}` }, text);
}

// A link inside the page: its parts become one path behind the #.
export function pathTo(...parts) {
  return `#/${parts.map((each) => encodeURIComponent(each)).join("/")}`;
}

export function panel(title, ...children) {
  const note = h("span", { className: "note" });
  const trouble = h("p", { className: "trouble", hidden: true });
  const heading = h("header", {}, h("h2", {}, title), note);
  const root = h("section", { className: "panel" }, heading, trouble, ...children);
  return {
    root,
    heading,
    note: (text) => setText(note, text),
    trouble: (text) => {
      trouble.hidden = !text;
      setText(trouble, text);
    },
  };
}

export const stack = (...children) => h("div", { className: "stack" }, ...children);

// Parts side by side: "two" or "three" of them, or one with another at its "side".
export function grid(kind, ...parts) {
  return h("div", { className: `grid ${kind}` }, ...parts.map((each) => each.root));
}

/**
 * The view of one thing: the lists that it is in, as names and paths; its figures, its plots, and
 * what else there is.
 */
export function detail({ lists, heading, note = "", top = null, plots = [], rest, feed }) {
  const links = lists.map(([text, ...path]) => h("a", { href: pathTo(...path) }, text));
  const title = typeof heading === "string" ? h("h1", {}, heading) : heading;
  const crumb = h(
    "div",
    { className: "crumb" },
    ...links,
    title,
    h("span", { className: "note" }, note),
  );
  const root = stack(crumb, top && top.root, plots.length ? grid("three", ...plots) : null, rest);
  return { title: lists[0][0], root, feeds: [feed], plots };
}

// Names and values in two columns.
export function facts() {
  const root = h("dl", { className: "facts" });
  return {
    root,
    show(pairs) {
      const shown = pairs.filter(
        ([, value]) => value !== null && value !== undefined && value !== "",
      );
      const now = JSON.stringify(shown);
      if (root.dataset.now === now) return;
      root.dataset.now = now;
      root.replaceChildren(
        ...shown.map(([name, value]) =>
          h("div", {}, h("dt", {}, name), h("dd", {}, String(value))),
        ),
      );
    },
  };
}

// Large figures side by side.
export function figures(names) {
  const cells = new Map();
  const root = h("div", { className: "figures" });
  for (const name of names) {
    const value = h("div", { className: "value" }, "–");
    const note = h("div", { className: "note" }, "\u00a0");
    const cell = h("div", {}, h("div", { className: "name" }, name), value, note);
    cells.set(name, { cell, value, note });
    root.append(cell);
  }
  return {
    root,
    show(name, parts, text = "", kind = "") {
      const { cell, value, note } = cells.get(name);
      if (value.dataset.now !== parts.join()) {
        value.dataset.now = parts.join();
        value.replaceChildren(quantity(parts));
      }
      setText(note, text || "\u00a0");
      cell.className = kind;
    },
  };
}

/**
 * A table whose rows keep their elements.
 *
 * A column has `title`, and `cell(row)`: text, or two texts for two lines, or an element. `href(row)`
 * makes a link of it. With `value(row)` the table sorts by it; with `sort` the owner does, whom
 * `onSort` calls. `kind` has classes: "text" is aligned to the left, "wide" is left out on a small
 * screen.
 */
export class Table {
  constructor({ columns, key, empty, by = null, onSort = null, limit = 200 }) {
    Object.assign(this, { columns, key, onSort, limit });
    this.by = by ?? columns.findIndex((each) => each.value);
    this.rows = [];
    this.elements = new Map();
    this.body = h("tbody");
    this.heads = columns.map((column, place) => this.head(column, place));
    this.empty = h("p", { className: "empty" }, "Loading …");
    this.emptyText = empty;
    const head = h("thead", {}, h("tr", {}, ...this.heads));
    this.table = h("table", { hidden: true }, head, this.body);
    this.more = h("p", { className: "more", hidden: true });
    this.root = h("div", { className: "table" }, this.table, this.empty, this.more);
  }

  head(column, place) {
    const { title, kind = "" } = column;
    if (!column.value && !column.sort) return h("th", { className: kind, scope: "col" }, title);
    const choose = () => {
      this.by = place;
      if (column.sort) this.onSort(column.sort);
      this.show(this.rows);
    };
    const button = h("button", { type: "button", onclick: choose }, title);
    return h("th", { className: kind, scope: "col" }, button);
  }

  sorted(rows) {
    const value = this.columns[this.by]?.value;
    if (!value) return rows;
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : (b ?? -1) - (a ?? -1));
    return [...rows].sort((a, b) => order(value(a), value(b)));
  }

  show(rows) {
    this.rows = rows;
    const shown = this.sorted(rows).slice(0, this.limit);
    const elements = new Map();
    const made = shown.map((row) => {
      const key = this.key(row);
      const element = this.elements.get(key) ?? this.made();
      this.columns.forEach((column, place) => fill(element.cells[place], column, row));
      elements.set(key, element);
      return element;
    });
    this.elements = elements;
    if (
      made.length !== this.body.rows.length ||
      made.some((each, n) => each !== this.body.rows[n])
    ) {
      this.body.replaceChildren(...made);
    }
    this.heads.forEach((head, place) => {
      const isChosen = place === this.by;
      head.classList.toggle("chosen", isChosen);
      const isText = head.classList.contains("text");
      if (isChosen) head.setAttribute("aria-sort", isText ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    this.table.hidden = !made.length;
    this.empty.hidden = made.length > 0;
    setText(this.empty, this.emptyText);
    this.more.hidden = rows.length <= this.limit;
    setText(this.more, `The first ${this.limit} of ${rows.length} are shown.`);
  }

  made() {
    return h("tr", {}, ...this.columns.map(({ kind = "" }) => h("td", { className: kind })));
  }
}

function fill(cell, column, row) {
  const content = column.cell(row);
  const href = column.href?.(row) ?? "";
  if (content instanceof Node) {
    const now = `${href} ${content.textContent} ${content.className}`;
    if (cell.dataset.now === now) return;
    cell.dataset.now = now;
    cell.replaceChildren(content);
    return;
  }
  const [first, second] = Array.isArray(content) ? content : [content];
  const now = JSON.stringify([href, first, second]);
  if (cell.dataset.now === now) return;
  cell.dataset.now = now;
  const main = href ? h("a", { href, title: first }, first) : h("span", { title: first }, first);
  cell.replaceChildren(main);
  if (second !== undefined) cell.append(h("small", {}, second));
}

// A choice of one account; none stands for all.
export function accountChoice(chosen, onChoose) {
  const root = h("select", { "aria-label": "Account", onchange: () => onChoose(root.value) });
  const show = (names) => {
    root.replaceChildren(
      ...["", ...names].map((value) => h("option", { value }, value || "All accounts")),
    );
    root.value = chosen();
  };
  show([]);
  const feed = {
    path: "accountz",
    every: 10,
    onDocument({ accounts }) {
      if (root.options.length !== accounts.length + 1) show([...accounts].sort());
    },
    onTrouble: (text) => (root.title = text ?? ""),
  };
  return { root, feed };
}

// Steps through a list of which the broker gives a part.
export function pager(size, onOffset) {
  let offset = 0;
  const range = h("span", { className: "range" });
  const step = (by, label, text) =>
    h(
      "button",
      { type: "button", "aria-label": label, onclick: () => onOffset(Math.max(0, offset + by)) },
      text,
    );
  const previous = step(-size, "Previous", "‹");
  const next = step(size, "Next", "›");
  return {
    root: h("span", { className: "pager" }, previous, range, next),
    show(first, number, total) {
      offset = first;
      setText(
        range,
        number ? `${whole(first + 1)}–${whole(first + number)} of ${whole(total)}` : "none",
      );
      previous.disabled = first === 0;
      next.disabled = first + number >= total;
    },
  };
}

// A choice between a few values, of which one is pressed.
export function choice(label, values, chosen, onChoose) {
  const root = h("div", { className: "choice", role: "group", "aria-label": label });
  const show = (now) => {
    for (const each of root.children) {
      each.setAttribute("aria-pressed", String(each.value === now));
    }
  };
  for (const [value, text] of values) {
    const choose = () => {
      show(value);
      onChoose(value);
    };
    root.append(h("button", { type: "button", value, onclick: choose }, text));
  }
  show(chosen);
  return root;
}
