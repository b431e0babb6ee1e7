// The view as a picture. Plotly makes the file, from a figure of its own that has what the canvas has on the page.

import { colourOf, inkOn } from "./palette.js";
import { shown } from "./format.js";
import { BAR } from "./model.js";
import { RIGHT } from "./plane.js";

const HEADER = 46; // px above the plot: title and legend
const FOOTER = 52; // px below: ticks and the axis's title
const SCALE = 2; // a PNG's pixels for each of the page's
const LONG = 20; // characters of a name: those of a group and a lane have 340 px
const SEPARATE = 4; // px of a bar's width from which on a line sets it apart: it would hide narrower ones

/** @typedef {import("./figure.js").Figure} Figure */
/** @typedef {import("./map.js").GpuMap} GpuMap */
/** @typedef {import("./plane.js").Plane} Plane */

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
  const pixel = (to - from) / figure.inner;
  const onAxis = (/** @type {number} */ cycles) => figure._onAxis(cycles);
  const rows = scene.rows.map((row) => ({
    text: `${shortened(shown(row.group))} / ${shortened(shown(row.lane))}`, y: row.bars + BAR / 2, xshift: -10,
    font: { size: 12, color: theme.ink },
  }));
  /** @type {Map<string, number[]>} */
  const byName = new Map();
  for (const i of scene.slices) {
    if (slices.start[i] > to || slices.start[i] + slices.duration[i] < from) continue;
    const [, text] = head.ranges[slices.range[i]];
    gathered(byName, text).push(i);
  }
  /** @type {any[]} */
  const traces = [...byName].map(([text, found]) => {
    const begin = found.map((i) => Math.max(slices.start[i], from));
    const end = found.map((i, at) => Math.max(Math.min(slices.start[i] + slices.duration[i], to), begin[at] + pixel));
    return {
      type: "bar", orientation: "h", name: escaped(shortened(shown(text))),
      base: begin.map(onAxis), x: end.map((value, at) => (value - begin[at]) * unit.scale),
      y: found.map((i) => scene.sliceTop[i] + BAR / 2), width: BAR,
      text: found.map((i, at) => escaped(figure.labelOf(i, end[at] - begin[at]))),
      textposition: "inside", insidetextanchor: "middle", textangle: 0, constraintext: "none",
      textfont: { color: inkOn(colourOf(text)), size: 12 },
      marker: {
        color: colourOf(text), line: linesOf(end.map((value, at) => (value - begin[at]) / pixel), theme),
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
    gathered(marks, text).push(i);
  }
  for (const [text, found] of marks) {
    traces.push({
      type: "scatter", mode: "markers", name: escaped(shortened(shown(text))),
      x: found.map((i) => onAxis(instants.time[i])), y: found.map((i) => scene.markTop[i] - 3),
      marker: { symbol: "triangle-down", size: 10, color: colourOf(text), line: { width: 1, color: theme.ink } },
    });
  }
  await save(figure, { traces, names: rows, above: {} }, { format, title, name });
}

/**
 * @typedef {object} Colours of the map
 * @property {string} what they stand for
 * @property {string[]} ends of the scale, as text
 * @property {string[]} shades from the one end to the other
 */

/**
 * Saves what the GPU map shows.
 * @param {GpuMap} map
 * @param {Colours | null} colours
 * @param {"png" | "svg"} format
 * @param {string} title
 * @param {string} name of the file, without its ending
 */
export async function saveMap(map, colours, format, title, name) {
  if (!map.measures) return;
  const { theme, columns, places } = map;
  const [from, to] = map.range;
  const seen = places.lines.flat().filter((i) => columns.cta_end_ns[i] >= from && columns.cta_begin_ns[i] <= to);
  const pixel = (to - from) / map.inner;
  const begin = seen.map((i) => Math.max(columns.cta_begin_ns[i], from));
  const length = seen.map((i, at) => Math.max(Math.min(columns.cta_end_ns[i], to) - begin[at], pixel));
  const bars = {
    type: "bar", orientation: "h", showlegend: false, base: begin, x: length,
    y: seen.map((i) => map.box(i).y + map.box(i).height / 2), width: seen.map((i) => map.box(i).height),
    marker: { color: seen.map((i) => map.colourOf(i)), line: linesOf(length.map((value) => value / pixel), theme) },
  };
  const names = map.namedRows().map(({ text, middle }) => ({
    text, y: middle, xshift: -6, font: { size: 10, color: theme.muted },
  }));
  const above = colours ? scaleOf(colours, theme) : {};
  await save(map, { traces: [bars], names, above }, { format, title, name });
}

/**
 * A scale above the plot's right end, of shapes and texts: Plotly's own would take its room from the plot.
 * @param {Colours} colours @param {Plane["theme"]} theme
 */
function scaleOf({ what, ends, shades }, theme) {
  const width = 192;
  const step = width / shades.length;
  const place = { xref: "paper", xanchor: 1, xsizemode: "pixel", yref: "paper", yanchor: 1, ysizemode: "pixel" };
  const shapes = shades.map((color, i) => ({
    type: "rect", ...place, x0: i * step - width, x1: (i + 1) * step - width, y0: 18, y1: 26,
    fillcolor: color, line: { width: 0 },
  }));
  const annotations = [[ends[0], -width, "left", 4], [ends[1], 0, "right", 4], [shortened(what), -width, "left", 28]].map(
    ([text, xshift, xanchor, yshift]) => ({
      text: escaped(String(text)), showarrow: false, x: 1, xref: "paper", xanchor, xshift, y: 1, yref: "paper",
      yanchor: "bottom", yshift, borderpad: 0, font: { size: 10, color: theme.muted },
    }),
  );
  return { shapes, annotations };
}

/**
 * @param {Plane} plane
 * @param {{traces: any[], names: any[], above: {shapes?: any[], annotations?: any[]}}} content `names` stand left of
 *   the plot
 * @param {{format: "png" | "svg", title: string, name: string}} options
 */
async function save(plane, { traces, names, above }, { format, title, name }) {
  const { theme } = plane;
  const longest = Math.max(...names.map(({ text }) => text.length), 4);
  const left = Math.max(plane.left, Math.min(340, 7 * longest + 16));
  const besides = names.map(({ text, ...rest }) => (
    { text: escaped(text), showarrow: false, x: 0, xref: "paper", xanchor: "right", ...rest }
  ));
  const height = HEADER + plane.height + FOOTER;
  const width = plane.width - plane.left + left;
  const layout = {
    ...plane._layout(), width, height,
    margin: { l: left, r: RIGHT, t: HEADER, b: FOOTER, pad: 0 },
    paper_bgcolor: theme.surface, plot_bgcolor: theme.surface,
    shapes: above.shapes ?? [], annotations: [...besides, ...(above.annotations ?? [])],
    title: { text: escaped(title), x: 0, xref: "container", xanchor: "left", pad: { l: 12, t: 8 }, y: 1, yanchor: "top",
      font: { size: 14, color: theme.ink } },
    showlegend: traces.some(({ showlegend }) => showlegend !== false),
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 11, color: theme.ink } },
  };
  layout.xaxis = { ...layout.xaxis, range: plane.range.map((value) => plane._onAxis(value)) };
  // Without this, Plotly takes what stands between two $ of a name for a formula.
  const config = { typesetMath: false };
  const scale = format === "png" ? SCALE : 1;
  const address = await window.Plotly.toImage({ data: traces, layout, config }, { format, width, height, scale });
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

/** The lines around bars. @param {number[]} widths px @param {Plane["theme"]} theme */
function linesOf(widths, theme) {
  return { width: widths.map((width) => (width < SEPARATE ? 0 : 0.5)), color: theme.surface };
}

/** The list that a key has in a map. @template T @param {Map<string, T[]>} map @param {string} key @returns {T[]} */
function gathered(map, key) {
  let list = map.get(key);
  if (!list) map.set(key, (list = []));
  return list;
}

/** A name's beginning, where there is no room for all of it. @param {string} text */
function shortened(text) {
  const characters = Array.from(text);
  return characters.length > LONG ? `${characters.slice(0, LONG - 1).join("")}…` : text;
}
