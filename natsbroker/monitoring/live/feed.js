// Asks for the monitoring pages again and again, and keeps what changes over time.

import { instantOf } from "./format.js";

const PATIENCE = 15000;

// A page may take a twentieth of the time: a broker with many connections is asked less often.
const SHARE = 20;

// Milliseconds between two requests while the page is in the background.
const BACKGROUND = 10000;

const BACKOFF = [1000, 2000, 4000, 8000, 15000];

// The trouble of an optional page that the broker does not have.
export const ABSENT = "404 page not found";

// What fetch throws when nothing answers, or not in time.
const UNREACHABLE = ["TypeError", "TimeoutError"];

class PageError extends Error {}

// The document of a page below the base path.
async function read(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  const type = response.headers.get("Content-Type") ?? "";
  // Health problems come with their own status.
  if (!type.startsWith("application/json")) {
    const text = (await response.text()).trim();
    throw new PageError(`${response.status} ${text}`.slice(0, 200));
  }
  return response.json();
}

// Whether the index links to the page of a path. To ask for one that is not there would be an error
// in the browser's console each time.
async function isListed(path) {
  const response = await fetch("./", { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  return (await response.text()).includes(`/${path.split("?")[0]}"`);
}

/**
 * Requests of one page. `onDocument` gets each document with the milliseconds that its answer took;
 * `onTrouble` the text of a refusal, null when nothing answers, and an empty text after that. A page
 * that is `optional` is one that not every broker has.
 */
export class Feed {
  constructor({ path, every = 1, optional = false, onDocument, onTrouble }, timing) {
    Object.assign(this, { path, every, optional, onDocument, onTrouble, timing });
    this.failures = 0;
    this.isOpen = true;
    this.number = 0;
    this.poll();
  }

  close() {
    this.isOpen = false;
    clearTimeout(this.timer);
  }

  // Ask at once, perhaps for something else.
  ask(path = this.path) {
    this.path = path;
    clearTimeout(this.timer);
    this.poll();
  }

  async poll() {
    const number = ++this.number;
    const begin = performance.now();
    const { page, trouble } = await this.answer();
    const took = performance.now() - begin;
    if (!this.isOpen || number !== this.number) return;
    this.again(took, trouble !== null);
    this.onTrouble(trouble);
    if (page) this.onDocument(page, took);
  }

  async answer() {
    try {
      if (this.optional && !(await isListed(this.path))) return { trouble: ABSENT };
      return { page: await read(this.path), trouble: "" };
    } catch (error) {
      if (error instanceof PageError) return { trouble: error.message };
      if (!UNREACHABLE.includes(error.name)) console.error(error);
      return { trouble: null };
    }
  }

  again(took, isThere) {
    this.failures = isThere ? 0 : this.failures + 1;
    let wait = Math.max(this.timing.interval * this.every - took, took * SHARE);
    if (!isThere) wait = BACKOFF[Math.min(this.failures, BACKOFF.length) - 1];
    if (document.hidden) wait = Math.max(wait, BACKGROUND);
    this.timer = setTimeout(() => this.poll(), wait);
  }
}

/**
 * How fast counters grow.
 */
export class Rates {
  constructor() {
    this.last = new Map();
  }

  // Values by name, at an instant of the broker. Each rate is per second; null the first time, and
  // after a counter has begun again.
  of(key, time, values) {
    const before = this.last.get(key);
    this.last.set(key, { time, values });
    const span = before ? time - before.time : 0;
    const rates = {};
    for (const [name, value] of Object.entries(values)) {
      const grown = before ? value - before.values[name] : -1;
      rates[name] = span > 0 && grown >= 0 ? grown / span : null;
    }
    return rates;
  }

  // Forget counters that are not shown any more.
  keep(keys) {
    const kept = new Set(keys);
    for (const key of this.last.keys()) if (!kept.has(key)) this.last.delete(key);
  }
}

/**
 * Columns of values over time, of the last hours.
 */
export class History {
  constructor(names, longest = 4000) {
    this.longest = longest;
    this.times = [];
    this.watchers = new Set();
    this.columns = new Map(names.map((name) => [name, []]));
  }

  add(time, values) {
    const last = this.times.at(-1);
    if (last !== undefined && time <= last) return;
    this.times.push(time);
    for (const [name, column] of this.columns) column.push(values[name] ?? null);
    if (this.times.length > this.longest) {
      this.times.shift();
      for (const column of this.columns.values()) column.shift();
    }
    for (const watcher of this.watchers) watcher();
  }

  // Have lines end here: what comes next comes later.
  interrupt() {
    if (this.times.length) this.add(this.times.at(-1) + 0.001, {});
  }

  // How much a counter has risen in the last seconds.
  rise(name, seconds) {
    const begin = this.times.at(-1) - seconds;
    const since = this.times.findIndex((time) => time >= begin);
    const known = this.columns.get(name).filter((each, at) => at >= since && each !== null);
    return known.length ? Math.max(0, known.at(-1) - known[0]) : 0;
  }

  // The time and the columns of these names, as uPlot takes them.
  data(names) {
    return [this.times, ...names.map((name) => this.columns.get(name))];
  }
}

export const timeOf = (document_) => instantOf(document_.now) ?? Date.now() / 1000;
