// The view as a picture. Plotly makes the file, from a figure of its own that has what the canvas has on the page.

import { colourOf, inkOn } from "./palette.js";
import { shown } from "./format.js";
import { BAR } from "./model.js";
import { RIGHT } from "./plane.js";

const HEADER = 46; // px above the plot: title and legend
const FOOTER = 52; // px below: ticks and the axis's title
const SCALE = 2; // a PNG's pixels for each of the page's

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./map.js").GpuMap} GpuMap */

/**
 * Saves what a CTA's figure shows.
 * @param {Figure} figure
 * @param {"png" | "svg"} format
 * @param {string} title
 * @param {string} name of the file, without its ending
 */
export async function saveFigure(figure, format, title, name) {
  const scene = figure.scene;
  if (!scene) return;
  const { head, theme, unit } = figure;
  const { slices, instants, flows } = scene.events;
  const [from, to] = figure.range;
  const onAxis = (/** @type {number} */ cycles) => figure._onAxis(cycles);
  const rows = scene.rows.map((row) => ({
    text: escaped(`${shown(row.group)} / ${shown(row.lane)}`), y: row.bars + BAR / 2, showarrow: false,
    x: 0, xref: "paper", xanchor: "right", xshift: -10, font: { size: 12, color: theme.ink },
  }));
  /** @type {Map<string, number[]>} */
  const byName = new Map();
  for (const i of scene.slices) {
    if (slices.start[i] > to || slices.start[i] + slices.duration[i] < from) continue;
    const [, text] = head.ranges[slices.range[i]];
    byName.set(text, [...(byName.get(text) ?? []), i]);
  }
  /** @type {any[]} */
  const traces = [...byName].map(([text, found]) => {
    const begin = found.map((i) => Math.max(slices.start[i], from));
    const end = found.map((i, at) => Math.max(Math.min(slices.start[i] + slices.duration[i], to), begin[at]));
    return {
      type: "bar", orientation: "h", name: escaped(shown(text)),
      base: begin.map(onAxis), x: end.map((value, at) => (value - begin[at]) * unit.scale),
      y: found.map((i) => scene.sliceTop[i] + BAR / 2), width: BAR,
      text: found.map((i, at) => escaped(figure.labelOf(i, end[at] - begin[at]))),
      textposition: "inside", insidetextanchor: "middle", textangle: 0, constraintext: "none",
      textfont: { color: inkOn(colourOf(text)), size: 12 },
      marker: {
        color: colourOf(text), line: { width: 0.5, color: theme.surface },
        pattern: { shape: found.map((i) => (slices.cut[i] ? "/" : "")), fgcolor: theme.surface, fillmode: "overlay" },
      },
    };
  });
  const seen = scene.flows.filter((i) => flows.end[i] >= from && flows.start[i] <= to);
  traces.push({
    type: "scatter", mode: "lines+markers", showlegend: false,
    x: seen.flatMap((i) => [onAxis(flows.start[i]), onAxis(flows.end[i]), null]),
    y: seen.flatMap((i) => [scene.flowFrom[i], scene.flowTo[i], null]),
    line: { color: theme.arrow, width: 1, simplify: false },
    marker: { symbol: "arrow", angleref: "previous", color: theme.arrowHead, size: seen.flatMap(() => [0, 9, 0]) },
  });
  /** @type {Map<string, number[]>} */
  const marks = new Map();
  for (const i of scene.instants) {
    if (instants.time[i] < from || instants.time[i] > to) continue;
    const [, text] = head.marks[instants.mark[i]];
    marks.set(text, [...(marks.get(text) ?? []), i]);
  }
  for (const [text, found] of marks) {
    traces.push({
      type: "scatter", mode: "markers", name: escaped(shown(text)),
      x: found.map((i) => onAxis(instants.time[i])), y: found.map((i) => scene.markTop[i] - 3),
      marker: { symbol: "triangle-down", size: 10, color: colourOf(text), line: { width: 1, color: theme.ink } },
    });
  }
  await save(figure, traces, rows, { format, title, name });
}

/**
 * Saves what the GPU map shows.
 * @param {GpuMap} map
 * @param {"png" | "svg"} format
 * @param {string} title
 * @param {string} name of the file, without its ending
 */
export async function saveMap(map, format, title, name) {
  if (!map.measures) return;
  const { theme, columns, places } = map;
  const [from, to] = map.range;
  const seen = places.lines.flat().filter((i) => columns.cta_end_ns[i] >= from && columns.cta_begin_ns[i] <= to);
  const begin = seen.map((i) => Math.max(columns.cta_begin_ns[i], from));
  const bars = {
    type: "bar", orientation: "h", showlegend: false, base: begin,
    x: seen.map((i, at) => Math.min(columns.cta_end_ns[i], to) - begin[at]),
    y: seen.map((i) => map.box(i).y + map.box(i).height / 2), width: seen.map((i) => map.box(i).height),
    marker: { color: seen.map((i) => map.colourOf(i)), line: { width: 0.5, color: theme.surface } },
  };
  const names = map.namedRows().map(({ text, middle }) => ({
    text: escaped(text), y: middle, showarrow: false, x: 0, xref: "paper", xanchor: "right", xshift: -6,
    font: { size: 10, color: theme.muted },
  }));
  await save(map, [bars], names, { format, title, name });
}

/**
 * @param {import("./plane.js").Plane} plane
 * @param {any[]} traces
 * @param {any[]} annotations
 * @param {{format: "png" | "svg", title: string, name: string}} options
 */
async function save(plane, traces, annotations, { format, title, name }) {
  const { theme } = plane;
  const longest = Math.max(...annotations.map(({ text }) => text.length), 4);
  const left = Math.max(plane.left, Math.min(300, 7 * longest + 16));
  const height = HEADER + plane.height + FOOTER;
  const width = plane.width - plane.left + left;
  const layout = {
    ...plane._layout(), width, height,
    margin: { l: left, r: RIGHT, t: HEADER, b: FOOTER, pad: 0 },
    paper_bgcolor: theme.surface, plot_bgcolor: theme.surface, annotations,
    title: { text: escaped(title), x: 0, xref: "container", xanchor: "left", pad: { l: 12, t: 8 }, y: 1, yanchor: "top",
      font: { size: 14, color: theme.ink } },
    showlegend: traces.length > 1,
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 11, color: theme.ink } },
  };
  layout.xaxis = { ...layout.xaxis, range: plane.range.map((value) => plane._onAxis(value)) };
  const address = await window.Plotly.toImage({ data: traces, layout }, { format, width, height, scale: SCALE });
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}.${format}`;
  document.body.append(link);
  link.click();
  link.remove();
}

/** A text that Plotly takes for a text: it reads a few of HTML's tags, and entities. @param {string} text */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
