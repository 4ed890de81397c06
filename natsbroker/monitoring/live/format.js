// Numbers, sizes, durations and instants as text, and the texts of the pages as numbers.

const NONE = "–";
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function scaled(value, base, units) {
  let place = 0;
  while (Math.abs(value) >= base * 0.9995 && place < units.length - 1) {
    value /= base;
    place++;
  }
  return [value, units[place]];
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

// Each of these gives a value and its unit.

export function countParts(value) {
  if (value === null || value === undefined) return [NONE, ""];
  if (Math.abs(value) < 10000) return [grouped.format(value), ""];
  const [short, unit] = scaled(value, 1000, ["", "k", "M", "G", "T", "P", "E"]);
  return [digits(short), unit];
}

export function rateParts(value) {
  if (value === null || value === undefined) return [NONE, "/s"];
  if (Math.abs(value) < 100) return [value === 0 ? "0" : value.toFixed(1), "/s"];
  const [short, unit] = countParts(value);
  return [short, `${unit}/s`];
}

export function bytesParts(value) {
  if (value === null || value === undefined) return [NONE, "B"];
  const [short, unit] = scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
  return [unit === "B" ? short.toFixed(0) : digits(short), unit];
}

export function byteRateParts(value) {
  const [short, unit] = bytesParts(value);
  return [short, `${unit}/s`];
}

export function secondsParts(value) {
  if (value === null || value === undefined) return [NONE, "ms"];
  if (value === 0) return ["0", "ms"];
  if (value >= 1) return [digits(value), "s"];
  return value >= 0.001 ? [digits(value * 1e3), "ms"] : [digits(value * 1e6), "µs"];
}

export function percentParts(value) {
  return value === null || value === undefined ? [NONE, "%"] : [value.toFixed(1), "%"];
}

const joined = (parts) => (value) =>
  (value === null || value === undefined ? [NONE] : parts(value)).filter(Boolean).join("\u202f");

export const count = joined(countParts);
export const rate = joined(rateParts);
export const bytes = joined(bytesParts);
export const byteRate = joined(byteRateParts);
export const seconds = joined(secondsParts);
export const percent = joined(percentParts);

// A number in full.
export const whole = (value) => grouped.format(value);

// A number of something, as "1 stream" or "2 streams".
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

const UNITS = {
  ns: 1e-9,
  µs: 1e-6,
  us: 1e-6,
  ms: 1e-3,
  s: 1,
  m: 60,
  h: 3600,
  d: 86400,
  y: 31536000,
};

// A duration as Go prints it, in seconds; null where there is none.
export function durationOf(text) {
  let sum = null;
  for (const [, number, unit] of (text ?? "").matchAll(/([\d.]+)(ns|µs|us|ms|[smhdy])/g)) {
    sum = (sum ?? 0) + Number(number) * UNITS[unit];
  }
  return sum;
}

// The two largest units of a duration of whole seconds.
export function age(value) {
  if (value === null || value === undefined) return NONE;
  let rest = Math.max(0, Math.floor(value));
  const parts = [];
  for (const unit of ["y", "d", "h", "m", "s"]) {
    const number = Math.floor(rest / UNITS[unit]);
    rest -= number * UNITS[unit];
    if (number || parts.length || unit === "s") parts.push(`${number}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

// An instant of a page in seconds; null for none, and for Go's zero instant.
export function instantOf(text) {
  const value = Date.parse(text ?? "") / 1000;
  return Number.isFinite(value) && value > 0 ? value : null;
}

export function clock(value) {
  return value === null ? NONE : new Date(value * 1000).toLocaleTimeString("en-GB");
}

export function dateTime(value) {
  return value === null ? NONE : new Date(value * 1000).toLocaleString("en-GB");
}

// A limit of a configuration: -1 and 0 stand for none.
export const limit = (value, format = count) => (value > 0 ? format(value) : "no limit");
