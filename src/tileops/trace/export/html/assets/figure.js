// One CTA's figure. Plotly draws axis, bars, arrows and instants, and zooms and pans along x. A canvas above it holds
// what must keep its shape while Plotly stretches its own drawing during a zoom: labels, arrowheads, the gaps between
// neighbouring bars, the hatching and torn ends of cut ranges, and what the pointer is on.
//
// Plotly makes an SVG element a bar, which is slow where there are many: with 6,000 bars and 2,000 arrows one step of a
// zoom took 1.5 s, the same on the canvas 25 ms (headless Chromium on two busy cores). So above MOST_SHAPES the canvas
// draws bars, arrows and instants too, in the same places, and Plotly keeps the axis and the gestures.

import { colourOf, inkOn } from "./palette.js";
import { PAYLOAD_NONE, payload, shown } from "./format.js";
import { BAR, Scene, layOut } from "./model.js";
import { bare } from "./units.js";
import { Plane, TOP, append, cleared, readTheme } from "./plane.js";

const NARROW = 640; // px: below, a row's name stands above its bars
export const LEAST_SPAN = 16; // cycles: ticks stay whole numbers
const FAINT = 0.16; // opacity of what a search does not name
const LABEL_PAD = 5;
const MOST_SHAPES = 1500;
// A bar of no width is not drawn at all. This is less than a clock can tell, and Plotly widens it to a pixel.
const LEAST_WIDTH = 0.01;

/**
 * @typedef {{kind: "slice" | "instant" | "flow", index: number}} Hit
 * @typedef {{names: Set<string>, edges: Set<number>}} Hidden
 * @typedef {import("./plane.js").Theme} Theme
 * @typedef {CanvasRenderingContext2D} Context
 * @typedef {import("./plane.js").Scale} Scale from cycles
 */

export class Figure extends Plane {
  /**
   * @param {HTMLElement} host
   * @param {import("./recording.js").Head} head
   * @param {(hit: Hit | null, event: PointerEvent | null) => void} onHover
   * @param {(slice: number) => void} onChoose a slice, or -1 for none
   */
  constructor(host, head, onHover, onChoose) {
    super(host, LEAST_SPAN);
    this.head = head;
    this.onHover = onHover;
    this.onChoose = onChoose;
    this.chosen = -1; // slice
    // What a figure that shares its axis with another is told: how far the axis goes, in cycles, and px for names.
    /** @type {[number, number] | null} */
    this.extent = null;
    this.leastLeft = 0;
    this.payloads = false; // whether labels have them
    /** @type {boolean[] | null} one for each of the recording's ranges; null without a search */
    this.sought = null;
    this.rowsElement = append(host, "div", "rows");
    this.plot.before(this.rowsElement);
    this.namesElement = append(host, "div", "row-names");
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {Hit | null} */
    this.hit = null;
    this._labels = new Map();
    this._watch();
  }

  /**
   * Shows a CTA. A span that the user zoomed into stays, so that CTAs can be compared.
   * @param {import("./recording.js").Events} events
   * @param {number} cycles
   * @param {Hidden} hidden
   * @param {import("./units.js").Unit} unit
   */
  show(events, cycles, hidden, unit) {
    this.events = events;
    this.cycles = cycles;
    this.hidden = hidden;
    this.unit = unit;
    this.render();
  }

  /** Frames a slice. @param {number} slice or -1 */
  choose(slice) {
    this.chosen = slice;
    this.draw();
  }

  /** Has all ranges but these faint. @param {boolean[] | null} sought */
  seek(sought) {
    const changed = (sought === null) !== (this.sought === null);
    this.sought = sought;
    if (changed) this.render();
    else this.draw();
  }

  /** Draws everything anew: another CTA, width, theme or choice of what is hidden. */
  render() {
    const { head, hidden } = this;
    this._hover(null, null);
    this.scene = null;
    // Nothing to draw, or nowhere: a CTA without events hides the figure.
    if (!this.events || !this.host.clientWidth) return;
    this.width = Math.max(240, this.host.clientWidth);
    const headings = this.width < NARROW;
    const layout = layOut(head.lanes, headings);
    this.height = layout.height;
    this.scene = new Scene(head, this.events, layout.rows, /** @type {Hidden} */ (hidden));
    this._fillRows(layout.rows, headings);
    const end = Math.max(this.cycles || 0, this.scene.end, LEAST_SPAN);
    const margin = (end - this.scene.begin) * 0.01;
    this._bound(...(this.extent ?? [this.scene.begin - margin, end + margin]));
    this.theme = readTheme(this.host);
    const shapes = this.scene.slices.length + this.scene.flows.length + this.scene.instants.length;
    // A search changes with each letter: on the canvas, that is one drawing.
    this.dense = shapes > MOST_SHAPES || this.sought !== null || !window.Plotly;
    this._react(this.dense ? [] : this._traces());
  }

  // Plotly ------------------------------------------------------------------------------------------------------------

  _traces() {
    const { head, theme } = this;
    const scene = /** @type {Scene} */ (this.scene);
    const { slices, instants, flows } = scene.events;
    const nameOf = (/** @type {number} */ i) => head.ranges[slices.range[i]][1];
    const bars = {
      type: "bar",
      name: "ranges",
      orientation: "h",
      base: scene.slices.map((i) => this._onAxis(slices.start[i])),
      x: scene.slices.map((i) => Math.max(slices.duration[i], LEAST_WIDTH) * this.unit.scale),
      y: scene.slices.map((i) => scene.sliceTop[i] + BAR / 2),
      width: BAR,
      hoverinfo: "skip",
      marker: {
        color: scene.slices.map((i) => colourOf(nameOf(i))),
        line: { width: 0 },
      },
    };
    const arrows = {
      type: "scatter",
      name: "arrows",
      mode: "lines",
      x: scene.flows.flatMap((i) => [this._onAxis(flows.start[i]), this._onAxis(flows.end[i]), null]),
      y: scene.flows.flatMap((i) => [scene.flowFrom[i], scene.flowTo[i], null]),
      line: { color: theme.arrow, width: 1, simplify: false },
      hoverinfo: "skip",
    };
    const marks = {
      type: "scatter",
      name: "instants",
      mode: "markers",
      x: scene.instants.map((i) => this._onAxis(instants.time[i])),
      y: scene.instants.map((i) => scene.markTop[i] - 3),
      marker: {
        symbol: "triangle-down",
        size: 10,
        opacity: 1,
        color: scene.instants.map((i) => colourOf(head.marks[instants.mark[i]][1])),
        line: { width: 1, color: theme.ink },
      },
      hoverinfo: "skip",
    };
    return [bars, arrows, marks];
  }

  // Rows' names -------------------------------------------------------------------------------------------------------

  /** @param {import("./model.js").Row[]} rows @param {boolean} headings */
  _fillRows(rows, headings) {
    this.rowsElement.replaceChildren();
    this.namesElement.replaceChildren();
    this.host.classList.toggle("headings", headings);
    const names = rows.map((row) => {
      const band = append(this.rowsElement, "div", row.first ? "row first" : "row");
      band.style.top = `${TOP + row.top}px`;
      band.style.height = `${row.height}px`;
      const name = append(/** @type {HTMLElement} */ (this.namesElement), "div", "row-name");
      name.style.top = `${TOP + row.top}px`;
      name.title = `${shown(row.group)} / ${shown(row.lane)}`;
      append(name, "span", "group").textContent = shown(row.group);
      append(name, "span", "slash").textContent = " / ";
      append(name, "span", "lane").textContent = shown(row.lane);
      return name;
    });
    if (headings) {
      this.left = 10;
      names.forEach((name) => (name.style.maxWidth = `${this.width - 20}px`));
      return;
    }
    const widest = Math.max(60, ...names.map((name) => Math.ceil(name.getBoundingClientRect().width) + 1));
    const most = Math.min(280, 0.3 * this.width);
    this.left = Math.max(Math.ceil(Math.min(widest, most)) + 14, this.leastLeft);
    names.forEach((name) => (name.style.width = `${this.left - 14}px`));
  }

  // Canvas ------------------------------------------------------------------------------------------------------------

  draw() {
    const { scene, left, inner: width } = this;
    const context = scene && cleared(this.canvas);
    if (!context) return;
    const toPixels = this._scale();
    context.save();
    context.beginPath();
    context.rect(left, 0, width, TOP + this.height);
    context.clip();
    context.translate(left, TOP);
    this._drawBars(context, scene, toPixels, width);
    this._drawArrows(context, scene, toPixels, width);
    if (this.dense) this._drawInstants(context, scene, toPixels, width);
    if (this.chosen >= 0 && scene.isShown(this.chosen)) {
      this._drawHit(context, scene, { kind: "slice", index: this.chosen }, toPixels);
    }
    if (this.hit) this._drawHit(context, scene, this.hit, toPixels);
    context.restore();
  }

  /** @param {Context} context @param {Scene} scene @param {Scale} toPixels @param {number} width */
  _drawBars(context, scene, toPixels, width) {
    const { slices } = scene.events;
    const theme = this.theme;
    context.textBaseline = "middle";
    context.font = `500 12px ${theme.font}`;
    for (const i of scene.slices) {
      const from = toPixels(slices.start[i]);
      const to = toPixels(slices.start[i] + slices.duration[i]);
      if (to < 0 || from > width) continue;
      const top = scene.sliceTop[i];
      const faint = this.sought !== null && !this.sought[slices.range[i]];
      context.globalAlpha = faint ? FAINT : 1;
      if (this.dense) {
        context.fillStyle = colourOf(this.head.ranges[slices.range[i]][1]);
        // Anti-aliasing makes a bar of half a pixel half as strong: a row that is busy for 12% of the time looks it.
        context.fillRect(from, top, Math.max(to - from, 0.4), BAR);
      }
      if (to - from >= 4) {
        context.fillStyle = theme.surface;
        context.fillRect(from - 0.5, top, 1, BAR);
      }
      if (slices.cut[i]) drawCut(context, Math.max(from, -BAR), Math.max(to, from + 1), top, theme);
      const [left, right] = [Math.max(from, 0), Math.min(to, width)];
      if (right - left >= 16 && !faint) this._drawLabel(context, i, left, right, top + BAR / 2 + 0.5);
    }
    context.globalAlpha = 1;
  }

  /** @param {Context} context @param {Scene} scene @param {Scale} toPixels @param {number} width */
  _drawArrows(context, scene, toPixels, width) {
    const { start, end } = scene.events.flows;
    const theme = this.theme;
    const inView = scene.flows.filter((i) => toPixels(end[i]) >= 0 && toPixels(start[i]) <= width);
    // Heads of arrows that stand closer than they are wide would be one black band.
    const room = width / Math.max(inView.length, 1);
    const size = Math.min(9, Math.max(4, 0.75 * room));
    if (this.dense) {
      context.strokeStyle = theme.arrow;
      context.lineWidth = 1;
      context.globalAlpha = Math.min(1, Math.max(0.15, room / 8));
      context.beginPath();
      for (const i of inView) {
        context.moveTo(toPixels(start[i]), scene.flowFrom[i]);
        context.lineTo(toPixels(end[i]), scene.flowTo[i]);
      }
      context.stroke();
    }
    context.fillStyle = theme.arrowHead;
    context.globalAlpha = Math.min(1, room / 8);
    for (const i of room < 1.5 ? [] : inView) {
      const x = toPixels(end[i]);
      if (x > width + size) continue;
      const angle = Math.atan2(scene.flowTo[i] - scene.flowFrom[i], x - toPixels(start[i]));
      drawHead(context, x, scene.flowTo[i], angle, size);
    }
    context.globalAlpha = 1;
  }

  /** @param {Context} context @param {Scene} scene @param {Scale} toPixels @param {number} width */
  _drawInstants(context, scene, toPixels, width) {
    const { time, mark } = scene.events.instants;
    context.strokeStyle = this.theme.ink;
    context.lineWidth = 1;
    for (const i of scene.instants) {
      const x = toPixels(time[i]);
      if (x < -6 || x > width + 6) continue;
      context.fillStyle = colourOf(this.head.marks[mark[i]][1]);
      context.beginPath();
      context.moveTo(x - 5.5, scene.markTop[i] - 6);
      context.lineTo(x + 5.5, scene.markTop[i] - 6);
      context.lineTo(x, scene.markTop[i] + 3);
      context.closePath();
      context.fill();
      context.stroke();
    }
  }

  /**
   * Writes on slice `i`, of which `left` to `right` can be seen.
   * @param {Context} context @param {number} i @param {number} left @param {number} right @param {number} middle
   */
  _drawLabel(context, i, left, right, middle) {
    const { slices } = /** @type {Scene} */ (this.scene).events;
    const name = this.head.ranges[slices.range[i]][1];
    const text = shown(name);
    const room = right - left - 2 * LABEL_PAD;
    const label = this._fitted(context, text, room);
    if (!label) return;
    if (slices.cut[i]) {
      // Hatching under a label makes it hard to read.
      context.fillStyle = colourOf(name);
      context.fillRect(left + LABEL_PAD - 3, middle - 8, label.width + 6, 15);
    }
    context.fillStyle = inkOn(colourOf(name));
    const detail = label.text === text ? this._detail(i) : "";
    const more = detail ? this._measure(context, detail) + 7 : 0;
    if (more && label.width + more <= room) {
      const at = left + (right - left - label.width - more) / 2;
      context.fillText(label.text, at, middle);
      context.globalAlpha = 0.72;
      context.fillText(detail, at + label.width + 7, middle);
      context.globalAlpha = 1;
    } else {
      context.fillText(label.text, slices.cut[i] ? left + LABEL_PAD : left + (right - left - label.width) / 2, middle);
    }
  }

  /** What there is room to write on a slice, as text. @param {number} i @param {number} cycles of it in view */
  labelOf(i, cycles) {
    const { head, scene } = this;
    const context = scene && this.canvas.getContext("2d");
    if (!context) return "";
    context.font = `500 12px ${this.theme.font}`;
    const room = (cycles * this.inner) / (this.range[1] - this.range[0]) - 2 * LABEL_PAD;
    const text = shown(head.ranges[scene.events.slices.range[i]][1]);
    const label = this._fitted(context, text, room);
    const whole = `${text}  ${this._detail(i)}`;
    return label && label.text === text && this._measure(context, whole) <= room ? whole : (label?.text ?? "");
  }

  /** What a label has behind the name: the payload where that is asked for, else how long it took. @param {number} i */
  _detail(i) {
    const { duration, cut, kind, payload: value } = /** @type {Scene} */ (this.scene).events.slices;
    if (this.payloads) return (kind[i] ?? PAYLOAD_NONE) === PAYLOAD_NONE ? "" : payload(value[i], kind[i]);
    return cut[i] ? "" : bare(this.unit, duration[i]);
  }

  /** @param {Context} context @param {string} text */
  _measure(context, text) {
    let width = this._labels.get(text);
    if (width === undefined) {
      if (this._labels.size > 20000) this._labels.clear();
      width = context.measureText(text).width;
      this._labels.set(text, width);
    }
    return width;
  }

  /**
   * As much of a name as there is room for.
   * @param {Context} context @param {string} name @param {number} room px
   */
  _fitted(context, name, room) {
    const width = this._measure(context, name);
    if (width <= room) return { text: name, width };
    if (room < 26) return null;
    const characters = Array.from(name);
    let [fits, tooMany] = [0, characters.length];
    while (tooMany - fits > 1) {
      const middle = (fits + tooMany) >> 1;
      if (this._measure(context, `${characters.slice(0, middle).join("")}…`) <= room) fits = middle;
      else tooMany = middle;
    }
    if (fits < 2) return null;
    const text = `${characters.slice(0, fits).join("")}…`;
    return { text, width: this._measure(context, text) };
  }

  /** @param {Context} context @param {Scene} scene @param {Hit} hit @param {Scale} toPixels */
  _drawHit(context, scene, hit, toPixels) {
    const theme = this.theme;
    const { slices, flows, instants } = scene.events;
    const outline = (/** @type {number} */ i) => {
      const from = toPixels(slices.start[i]);
      const width = Math.max(toPixels(slices.start[i] + slices.duration[i]) - from, 1);
      context.strokeRect(from - 0.5, scene.sliceTop[i] - 0.5, width + 1, BAR + 1);
    };
    const arrow = (/** @type {number} */ i) =>
      drawArrow(context, toPixels(flows.start[i]), scene.flowFrom[i], toPixels(flows.end[i]), scene.flowTo[i]);
    context.strokeStyle = theme.ink;
    context.fillStyle = theme.ink;
    context.lineWidth = 2;
    if (hit.kind === "slice") {
      outline(hit.index);
      context.strokeStyle = theme.accent;
      context.fillStyle = theme.accent;
      scene.flowsOf(hit.index).forEach(arrow);
    } else if (hit.kind === "flow") {
      context.lineWidth = 1.5;
      outline(flows.src[hit.index]);
      outline(flows.dst[hit.index]);
      context.lineWidth = 2;
      context.strokeStyle = theme.accent;
      context.fillStyle = theme.accent;
      arrow(hit.index);
    } else {
      context.beginPath();
      context.arc(toPixels(instants.time[hit.index]), scene.markTop[hit.index] - 3, 8, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  // Pointer -----------------------------------------------------------------------------------------------------------

  _watch() {
    const leave = () => this._hover(null, null);
    const move = (/** @type {PointerEvent} */ event) => {
      if (event.buttons && event.pointerType === "mouse") return;
      this._hover(this._pick(event), event);
    };
    this.host.addEventListener("pointermove", move);
    this.host.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") leave();
      else move(event);
    });
    this.host.addEventListener("pointerleave", leave);
    // Plotly lets a click through only where nothing was dragged.
    this.plot.addEventListener("click", (event) => {
      const hit = event.shiftKey ? null : this._pick(event);
      this.onChoose(hit?.kind === "slice" ? hit.index : -1);
    });
    new ResizeObserver(() => {
      const { clientWidth } = this.host;
      if (clientWidth && (!this.scene || Math.max(240, clientWidth) !== this.width)) this.render();
    }).observe(this.host);
  }

  /** The range's begin or end that is near a place. @param {number} x px @param {number} y px, from the plot's corner */
  edgeNear(x, y) {
    return this.scene ? this.scene.edgeNear(x, y, this._scale()) : null;
  }

  /** @param {MouseEvent} event */
  _pick(event) {
    const scene = this.scene;
    if (!scene) return null;
    const box = this.host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - this.left, event.clientY - box.top - TOP];
    if (x < -2 || x > this.inner + 2) return null;
    return scene.pick(x, y, this._scale());
  }

  _leave() {
    this._hover(null, null);
  }

  /** @param {Hit | null} hit @param {PointerEvent | null} event */
  _hover(hit, event) {
    const changed = hit?.kind !== this.hit?.kind || hit?.index !== this.hit?.index;
    this.hit = hit;
    if (changed) this.draw();
    if (changed || hit) this.onHover(hit, event);
  }
}

/**
 * Hatches a range that nothing ended, and tears its end.
 * @param {Context} context @param {number} from @param {number} to @param {number} top
 * @param {Theme} theme
 */
function drawCut(context, from, to, top, theme) {
  context.save();
  context.beginPath();
  context.rect(from, top, to - from, BAR);
  context.clip();
  context.strokeStyle = theme.surface;
  context.globalAlpha = 0.7;
  context.lineWidth = 2;
  context.beginPath();
  // Strokes lie on one grid for all bars, and none is drawn outside of what is seen.
  const last = Math.min(to, context.canvas.width);
  for (let x = Math.floor((from - BAR) / 7) * 7; x < last; x += 7) {
    context.moveTo(x, top + BAR);
    context.lineTo(x + BAR, top);
  }
  context.stroke();
  context.restore();
  const teeth = 4;
  const tooth = BAR / teeth;
  const edge = new Path2D();
  edge.moveTo(to, top);
  for (let i = 0; i < teeth; i += 1) {
    edge.lineTo(to - 4, top + (i + 0.5) * tooth);
    edge.lineTo(to, top + (i + 1) * tooth);
  }
  const gap = new Path2D(edge);
  gap.lineTo(to + 1, top + BAR);
  gap.lineTo(to + 1, top);
  gap.closePath();
  context.fillStyle = theme.surface;
  context.fill(gap);
  context.strokeStyle = theme.ink;
  context.lineWidth = 1;
  context.stroke(edge);
}

/** @param {Context} context @param {number} x @param {number} y @param {number} angle @param {number} size */
function drawHead(context, x, y, angle, size) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * Math.cos(angle - 0.4), y - size * Math.sin(angle - 0.4));
  context.lineTo(x - size * Math.cos(angle + 0.4), y - size * Math.sin(angle + 0.4));
  context.closePath();
  context.fill();
}

/** @param {Context} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
function drawArrow(context, x0, y0, x1, y1) {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1 - 6 * Math.cos(angle), y1 - 6 * Math.sin(angle));
  context.stroke();
  drawHead(context, x1, y1, angle, 11);
}
