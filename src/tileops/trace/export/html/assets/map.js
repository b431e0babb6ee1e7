// The GPU map: SMs as rows, nanoseconds across, each CTA a bar. A canvas below Plotly's axis holds the SMs' tracks,
// which a zoom leaves where they are, one above it the bars, and a third what is pointed at.

import { inkOn, shades } from "./palette.js";
import { integer } from "./format.js";
import { isOutlier, labelled, measure, neighbour, pick, place, shadeOf } from "./map_model.js";
import { NANOSECONDS } from "./units.js";
import { Plane, TOP, append, cleared, readTheme, sizeCanvas } from "./plane.js";

const LEAST_ROOM = 440; // px of height: 132 SMs of 2 px and a gap
const AROUND = 300; // px of the window's height that are not the map's
const LEAST_NS = 64; // two steps of the GPU's timer
const NAME_PITCH = 15; // px from one SM's name to the next
const LABEL = 12; // px of a bar's height from which on its CTA is written on it
const EDGE = 40; // px of the window above and below a CTA that the keyboard goes to
const SNAP = 8; // px from a CTA's begin or end to what is set on it
const SEPARATE = 4; // px of a bar's width from which on its left edge shows

/** @typedef {import("./map_model.js").Measures} Measures */

export class GpuMap extends Plane {
  /**
   * @param {HTMLElement} host
   * @param {Record<string, any>} columns the recording's
   * @param {number | null} axisError in nanoseconds
   * @param {(position: number) => string} nameOf a CTA
   * @param {(position: number, point: {x: number, y: number} | null, said: boolean) => void} onPoint the CTA that is
   *   pointed at or -1, where its tooltip goes, and whether the keyboard did it
   * @param {(position: number) => void} onOpen
   */
  constructor(host, columns, axisError, nameOf, onPoint, onOpen) {
    super(host, LEAST_NS, NANOSECONDS);
    this.columns = columns;
    this.nameOf = nameOf;
    this.onPoint = onPoint;
    this.onOpen = onOpen;
    this.tracks = /** @type {HTMLCanvasElement} */ (document.createElement("canvas"));
    this.tracks.className = "overlay";
    this.plot.before(this.tracks);
    this.marks = /** @type {HTMLCanvasElement} */ (append(host, "canvas", "overlay"));
    this.namesElement = append(host, "div", "sm-names");
    this.places = place(columns, axisError);
    /** @type {ArrayLike<number>} */
    this.values = [];
    /** @type {import("./map_model.js").Scale | null} */
    this.scale = null;
    this.current = -1; // the CTA that is open
    this.hit = -1; // pointed at, by pointer or keys
    this.drawn = 0; // bars, in the last drawing
    this._watch();
  }

  /** Whether there is a time to draw along. */
  get known() {
    return Number.isFinite(this.places.from);
  }

  /**
   * Colours the bars.
   * @param {ArrayLike<number>} values one a CTA
   * @param {import("./map_model.js").Scale | null} scale null if no value is known
   */
  colour(values, scale) {
    this.values = values;
    this.scale = scale;
    this._leave();
    this.draw();
  }

  render() {
    this._leave();
    if (!this.known || !this.host.clientWidth) return;
    const { places } = this;
    this.width = Math.max(240, this.host.clientWidth);
    this.theme = readTheme(this.host);
    this.dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    this.shades = shades(this.dark);
    const style = getComputedStyle(this.host);
    this.track = style.getPropertyValue("--track").trim();
    this.bad = style.getPropertyValue("--bad").trim();
    this.unknown = style.getPropertyValue("--unknown").trim();
    this.left = this._measureNames();
    this.measures = measure(places, Math.max(LEAST_ROOM, window.innerHeight - AROUND), this.inner);
    this.height = this.measures.height;
    const margin = Math.max((places.to - places.from) * 0.01, LEAST_NS / 2);
    this._bound(places.from - margin, places.to + margin);
    this._fillNames();
    sizeCanvas(this.tracks, this.width, TOP + this.height);
    sizeCanvas(this.marks, this.width, TOP + this.height);
    this._drawTracks();
    this._react();
  }

  // SMs ---------------------------------------------------------------------------------------------------------------

  /** @param {import("./map_model.js").SmRow} row */
  _named({ sm }) {
    return sm < 0 ? "SM ?" : `SM ${sm}`;
  }

  /** The room that the widest name needs, in px. */
  _measureNames() {
    const { rows, timeless } = this.places;
    const probe = append(this.namesElement, "span", "sm-name");
    const widest = rows.length ? this._named(rows.reduce((a, b) => (b.sm > a.sm ? b : a))) : "";
    const widths = [widest, timeless.length ? "no time" : ""].map((text) => {
      probe.textContent = text;
      return probe.getBoundingClientRect().width;
    });
    probe.remove();
    return Math.ceil(Math.max(...widths)) + 8;
  }

  /** The SMs that there is room to name, and where, in px from the plot's top. */
  namedRows() {
    const { bar, rowTop, rowHeight, strip } = /** @type {Measures} */ (this.measures);
    const { rows, timeless } = this.places;
    // A name stands beside the SM's first line, where its rows are taller than a line of text.
    const named = [...labelled(rows, rowTop, NAME_PITCH)].map((at) => ({
      text: this._named(rows[at]),
      middle: rowTop[at] + Math.min(rowHeight[at], Math.max(bar, NAME_PITCH)) / 2,
    }));
    if (timeless.length) named.push({ text: "no time", middle: strip.top + strip.size / 2 });
    return named;
  }

  _fillNames() {
    this.namesElement.replaceChildren();
    for (const { text, middle } of this.namedRows()) {
      const element = append(this.namesElement, "span", "sm-name");
      element.textContent = text;
      element.style.top = `${Math.max(TOP + middle, NAME_PITCH / 2)}px`;
      element.style.width = `${this.left - 8}px`;
    }
  }

  _drawTracks() {
    const { lineTop, bar } = /** @type {Measures} */ (this.measures);
    const context = cleared(this.tracks);
    if (!context) return;
    context.fillStyle = /** @type {string} */ (this.track);
    for (const top of lineTop) context.fillRect(this.left, TOP + top, this.inner, bar);
  }

  // Drawing -----------------------------------------------------------------------------------------------------------

  /** @param {number} position */
  colourOf(position) {
    const { scale } = this;
    const shade = scale ? shadeOf(this.values[position], scale, /** @type {string[]} */ (this.shades).length) : -1;
    return /** @type {string} */ (shade < 0 ? this.unknown : /** @type {string[]} */ (this.shades)[shade]);
  }

  /** A cleared canvas whose origin is the plot's. @param {HTMLCanvasElement} canvas */
  _begin(canvas) {
    const context = this.measures ? cleared(canvas) : null;
    if (!context) return null;
    context.save();
    context.beginPath();
    context.rect(this.left - 2, 0, this.inner + 4, TOP + this.height);
    context.clip();
    context.translate(this.left, TOP);
    return context;
  }

  draw() {
    const context = this._begin(this.canvas);
    if (!context) return;
    this._drawBars(context);
    this._drawTimeless(context);
    context.restore();
    this._drawMarks();
  }

  /** Frames the CTA that is open and the one that is pointed at, above the bars: those need not be drawn anew. */
  _drawMarks() {
    const context = this._begin(this.marks);
    if (!context) return;
    for (const [position, colour] of /** @type {[number, string][]} */ ([
      [this.current, this.theme.accent],
      [this.hit, this.theme.ink],
    ])) {
      if (position >= 0) this._outline(context, position, colour);
    }
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context */
  _drawBars(context) {
    const { theme, scale } = this;
    const { lines } = this.places;
    const { bar, lineTop } = /** @type {Measures} */ (this.measures);
    const { cta_begin_ns: begin, cta_end_ns: end, cta_dropped: dropped } = this.columns;
    const toPixels = this._scale();
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.font = `500 11px ${theme.font}`;
    this.drawn = 0;
    for (let at = 0; at < lines.length; at += 1) {
      const top = lineTop[at];
      let before = -Infinity;
      for (const i of lines[at]) {
        const [from, to] = [toPixels(begin[i]), toPixels(end[i])];
        if (to < 0 || from > this.inner) continue;
        const width = Math.max(to - from, 0.6);
        const colour = this.colourOf(i);
        context.fillStyle = colour;
        context.fillRect(from, top, width, bar);
        this.drawn += 1;
        const touches = from - before < 1;
        before = to;
        if (touches && width >= SEPARATE) {
          context.fillStyle = theme.surface;
          context.fillRect(from - 0.5, top, 1, bar);
        }
        if (dropped[i]) this._drawDropped(context, to, top, bar);
        if (scale && isOutlier(this.values[i], scale)) drawDots(context, from, to, top, bar, inkOn(colour));
        const [left, right] = [Math.max(from, 0), Math.min(to, this.inner)];
        if (bar >= LABEL && right - left > 24) this._drawLabel(context, i, left, right, top + bar / 2 + 0.5, colour);
      }
    }
  }

  /** A CTA that lost events, at its end. @param {CanvasRenderingContext2D} context @param {number} to
   * @param {number} top @param {number} bar */
  _drawDropped(context, to, top, bar) {
    context.fillStyle = /** @type {string} */ (this.bad);
    context.fillRect(to - 3, top, 3, bar);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {number} position @param {number} left @param {number} right
   * @param {number} middle @param {string} colour of the bar
   */
  _drawLabel(context, position, left, right, middle, colour) {
    const room = right - left - 8;
    const texts = [this.nameOf(position), `#${integer(this.columns.cta_cta[position])}`];
    const text = texts.find((one) => context.measureText(one).width <= room);
    if (!text) return;
    context.fillStyle = inkOn(colour);
    context.fillText(text, (left + right) / 2, middle);
  }

  /** CTAs that no time is known of: as many chips, in no order of time. @param {CanvasRenderingContext2D} context */
  _drawTimeless(context) {
    const { timeless } = this.places;
    const { strip } = /** @type {Measures} */ (this.measures);
    context.strokeStyle = context.fillStyle = /** @type {string} */ (this.bad);
    context.lineWidth = 1;
    timeless.forEach((_, at) => {
      const { x, y } = this._chip(at);
      if (strip.size < 6) {
        context.fillRect(x, y, strip.size, strip.size);
        return;
      }
      context.strokeRect(x + 0.5, y + 0.5, strip.size - 1, strip.size - 1);
      context.beginPath();
      context.moveTo(x + 0.5, y + strip.size - 0.5);
      context.lineTo(x + strip.size - 0.5, y + 0.5);
      context.stroke();
    });
  }

  /** @param {number} at place among the CTAs without a time */
  _chip(at) {
    const { strip } = /** @type {Measures} */ (this.measures);
    return { x: (at % strip.columns) * strip.pitch, y: strip.top + Math.floor(at / strip.columns) * strip.pitch };
  }

  /** The begin or end of the CTA below a place that is near it. @param {number} x px @param {number} y px */
  edgeNear(x, y) {
    if (!this.measures) return null;
    const toPixels = this._scale();
    const position = pick(this.places, this.measures, this.columns, x, y, toPixels);
    if (position < 0) return null;
    const ends = [this.columns.cta_begin_ns[position], this.columns.cta_end_ns[position]];
    return ends.find((value) => Math.abs(x - toPixels(value)) < SNAP) ?? null;
  }

  /** Where a CTA is drawn, in px from the plot's left and top. @param {number} position */
  box(position) {
    const { places } = this;
    const { bar, lineTop, strip } = /** @type {Measures} */ (this.measures);
    const line = places.line[position];
    if (line < 0) {
      const { x, y } = this._chip(places.timeless.indexOf(position));
      return { x, y, width: strip.size, height: strip.size };
    }
    const toPixels = this._scale();
    const x = toPixels(this.columns.cta_begin_ns[position]);
    const width = Math.max(toPixels(this.columns.cta_end_ns[position]) - x, 1);
    return { x, y: lineTop[line], width, height: bar };
  }

  /** @param {CanvasRenderingContext2D} context @param {number} position @param {string} colour */
  _outline(context, position, colour) {
    const { x, y, width, height } = this.box(position);
    context.lineWidth = 2;
    // A line in the page's colour outside keeps the frame apart from bars of any shade.
    context.strokeStyle = this.theme.surface;
    context.strokeRect(x - 2, y - 2, width + 4, height + 4);
    context.strokeStyle = colour;
    context.strokeRect(x - 1, y - 1, width + 2, height + 2);
  }

  // Pointer and keys --------------------------------------------------------------------------------------------------

  _leave() {
    if (this.hit < 0) return;
    this.hit = -1;
    this._drawMarks();
    this.onPoint(-1, null, false);
  }

  /** @param {number} position @param {{x: number, y: number}} point on the screen @param {boolean} said */
  _point(position, point, said) {
    const changed = position !== this.hit;
    this.hit = position;
    this.host.classList.toggle("pointing", position >= 0 && !said);
    if (changed) this._drawMarks();
    if (changed || position >= 0) this.onPoint(position, point, said);
  }

  /** The CTA below an event, or -1. @param {MouseEvent} event */
  _pick(event) {
    if (!this.measures) return -1;
    const box = this.host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - this.left, event.clientY - box.top - TOP];
    if (x < -2 || x > this.inner + 2) return -1;
    return pick(this.places, this.measures, this.columns, x, y, this._scale());
  }

  _watch() {
    const { host } = this;
    host.addEventListener("pointermove", (event) => {
      if (event.buttons && event.pointerType === "mouse") return;
      this._point(this._pick(event), { x: event.clientX, y: event.clientY }, false);
    });
    host.addEventListener("pointerdown", () => this._leave());
    host.addEventListener("pointerleave", () => this._leave());
    // Plotly lets a click through only where nothing was dragged.
    this.plot.addEventListener("click", (event) => {
      const position = event.shiftKey ? -1 : this._pick(event);
      if (position >= 0) this.onOpen(position);
    });
    host.addEventListener("keydown", (event) => this._key(event));
    host.addEventListener("focus", () => {
      if (host.matches(":focus-visible") && this.measures) this.show(this.current);
    });
    host.addEventListener("blur", () => this._leave());
    window.addEventListener("scroll", () => this._scrolled());
    new ResizeObserver(() => {
      const { clientWidth } = host;
      if (clientWidth && Math.max(240, clientWidth) !== this.width) this.render();
    }).observe(host);
  }

  /** The page moved below a tooltip that stays: a bar that only the pointer knows of is another one now. */
  _scrolled() {
    if (this.hit < 0) return;
    if (document.activeElement === this.host && this.host.matches(":focus-visible")) {
      this._point(this.hit, this._onScreen(this.hit), true);
    } else this._leave();
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (!this.measures || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.hit >= 0 ? this.hit : this.current;
    if (event.key === "Enter") this.onOpen(at);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.fit();
    else if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      this.show(this.hit < 0 ? at : neighbour(this.places, this.columns, at, event.key));
    } else return;
    event.preventDefault();
  }

  /** Points at a CTA as the keyboard does: the map moves until it is in sight. @param {number} position */
  show(position) {
    const [from, to] = this.range;
    const { cta_begin_ns: begin, cta_end_ns: end } = this.columns;
    if (this.places.line[position] >= 0 && (end[position] < from || begin[position] > to)) {
      const middle = (begin[position] + end[position]) / 2;
      this.zoomTo([middle - (to - from) / 2, middle + (to - from) / 2]);
    }
    const { y } = this._onScreen(position);
    window.scrollBy(0, Math.min(0, y - EDGE) + Math.max(0, y + EDGE - window.innerHeight));
    this._point(position, this._onScreen(position), true);
  }

  /** Where the middle of what can be seen of a CTA is on the screen. @param {number} position */
  _onScreen(position) {
    const { x, y, width, height } = this.box(position);
    const host = this.host.getBoundingClientRect();
    const [from, to] = [Math.max(x, 0), Math.min(x + width, this.inner)];
    return { x: host.left + this.left + (from + to) / 2, y: host.top + TOP + y + height / 2 };
  }
}

/**
 * Marks a bar whose value lies beyond the scale, along its upper edge.
 * @param {CanvasRenderingContext2D} context @param {number} from @param {number} to @param {number} top
 * @param {number} bar @param {string} colour
 */
function drawDots(context, from, to, top, bar, colour) {
  context.strokeStyle = colour;
  context.lineWidth = Math.min(2, bar / 2);
  context.setLineDash([3, 2]);
  context.beginPath();
  context.moveTo(from + 1, top + context.lineWidth / 2);
  context.lineTo(to - 1, top + context.lineWidth / 2);
  context.moveTo(from + 1, top + bar - context.lineWidth / 2);
  context.lineTo(to - 1, top + bar - context.lineWidth / 2);
  context.stroke();
  context.setLineDash([]);
}
