// Plots that move. Colours are those of the style sheet at the moment of drawing.

import { h, setText } from "./dom.js";
import { byteRate, bytes, count, percent, rate, seconds } from "./format.js";

const HEIGHT = 160;

// Seconds that a plot has at least, also when it has just begun.
const SHORTEST = 10;

// Powers of two between the lines, so that they are at whole KiB and MiB.
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);
const WHOLE = [1, 2, 5]
  .flatMap((each) => Array.from({ length: 17 }, (_, power) => each * 10 ** power))
  .sort((a, b) => a - b);

// By the format of the values: the least height of a plot, and the distances of its lines.
const SCALES = new Map([
  [bytes, { least: 4096, incrs: BINARY }],
  [byteRate, { least: 4096, incrs: BINARY }],
  [count, { least: 4, incrs: WHOLE }],
  [rate, { least: 4, incrs: WHOLE }],
  [percent, { least: 10, incrs: WHOLE }],
  [seconds, { least: 0.0005 }],
]);

const probe = h("i", { hidden: true });
document.body.append(probe);

function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

// The first series has the accent, filled; the second one is quiet.
const STROKES = ["accent", "second"];

// What all plots have in common: the seconds that they show, and themselves.
export const view = { span: 300, plots: new Set() };

export function redrawAll() {
  for (const plot of view.plots) plot.draw();
}

/**
 * A plot of columns of a history.
 *
 * `series` has a label and the column's name each, `format` the text of a value.
 */
export class Plot {
  constructor({ title, history, series, format, note = "" }) {
    Object.assign(this, { history, series, format });
    this.values = series.map(() => h("b", {}, "–"));
    const legend = series.map(({ label }, place) =>
      h("span", { className: STROKES[place] }, h("i"), label, " ", this.values[place]),
    );
    this.place = h("div", { className: "plot" });
    const heading = h(
      "header",
      {},
      h("h2", {}, title),
      h("span", { className: "legend" }, ...legend),
    );
    this.root = h("section", { className: "panel", title: note }, heading, this.place);
    this.data = () => history.data(series.map((each) => each.column));
    view.plots.add(this);
    this.redraw = () => this.draw();
    history.watchers.add(this.redraw);
    this.observer = new ResizeObserver(([entry]) => this.fit(entry.contentRect.width));
    this.observer.observe(this.place);
  }

  close() {
    view.plots.delete(this);
    this.history.watchers.delete(this.redraw);
    this.observer.disconnect();
    this.chart?.destroy();
  }

  fit(width) {
    if (!width) return;
    if (this.chart) this.chart.setSize({ width, height: HEIGHT });
    else this.chart = new globalThis.uPlot(this.options(width), this.data(), this.place);
  }

  options(width) {
    const { least, incrs } = SCALES.get(this.format);
    const axis = {
      stroke: () => colour("muted"),
      grid: { stroke: () => colour("line"), width: 1 },
      ticks: { show: false },
      font: `11px ${getComputedStyle(document.body).fontFamily}`,
    };
    const lines = this.series.map(({ label }, place) => ({
      label,
      stroke: () => colour(STROKES[place]),
      fill: place ? undefined : () => colour("wash"),
      width: place ? 1.25 : 1.75,
      points: { show: false },
    }));
    return {
      width,
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: "live" },
        points: { size: 7 },
      },
      scales: {
        x: { range: (_, first, last) => this.range(first, last) },
        y: { range: (_, low, high) => [0, Math.max(high * 1.15, least)] },
      },
      axes: [
        { ...axis, size: 24, gap: 6, grid: { show: false }, space: 72, values: clockMarks },
        {
          ...axis,
          size: 66,
          space: 30,
          values: (_, marks) => marks.map(this.format),
          ...(incrs && { incrs }),
        },
      ],
      series: [{}, ...lines],
      hooks: { setLegend: [(chart) => this.legend(chart.cursor.idx)] },
    };
  }

  range(first, last) {
    const now = this.history.times.at(-1) ?? last ?? Date.now() / 1000;
    const begin = this.history.times[0] ?? now;
    return [Math.min(Math.max(now - view.span, begin), now - SHORTEST), now];
  }

  legend(place) {
    const columns = this.data().slice(1);
    const at = place ?? this.history.times.length - 1;
    this.values.forEach((element, n) => setText(element, this.format(columns[n][at] ?? null)));
  }

  draw() {
    this.legend(this.chart?.cursor.idx);
    if (this.chart) this.chart.setData(this.data());
  }
}

function clockMarks(chart, marks) {
  const { min, max } = chart.scales.x;
  const isShort = max - min < 180;
  const options = { hour: "2-digit", minute: "2-digit", ...(isShort && { second: "2-digit" }) };
  // The last one would not have room for its text.
  const last = max - ((max - min) * 30) / chart.width;
  return marks.map((each) =>
    each > last ? "" : new Date(each * 1000).toLocaleTimeString("en-GB", options),
  );
}

// Plots of one history: the title, the format, and a label and a column for each series.
export function plotsOf(history, ...rows) {
  return rows.map(([title, format, ...series]) => {
    const named = series.map(([label, column]) => ({ label, column }));
    return new Plot({ title, history, format, series: named });
  });
}
