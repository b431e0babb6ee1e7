// A plot that zooms and pans along x and nothing else: Plotly draws the axis and takes the gestures, a canvas above it
// holds the drawing. Until Plotly has come, there is the canvas alone.

import { within } from "./model.js";
import { CYCLES, length, moment } from "./units.js";

export const TOP = 4;
export const RIGHT = 18; // px right of the plot: half of the last tick's label
export const BOTTOM = 48; // ticks and the axis's title
const MOST_PIXELS = 16000; // of a canvas's height: browsers refuse larger ones
const SLACK = 0.995; // of the whole: a span that is wider counts as all of it

/** @typedef {(value: number) => number} Scale to px from the plot's left */

/** @typedef {ReturnType<typeof readTheme>} Theme */
/** @typedef {import("./units.js").Unit} Unit */

/**
 * What draws itself implements `render` and `draw`, sets `width`, `left` and `height` and calls `_bound` before
 * `_react`.
 */
export class Plane {
  /**
   * @param {HTMLElement} host
   * @param {number} narrowest span that is shown
   * @param {Unit} unit that values are shown in
   */
  constructor(host, narrowest, unit = CYCLES) {
    this.host = host;
    this.narrowest = narrowest;
    this.unit = unit;
    /** Called when other values are shown, or in another place. */
    this.onMoved = () => {};
    /** @type {[number, number]} */
    this.full = [0, 1];
    /** @type {[number, number] | null} null shows all of it */
    this.span = null;
    this.width = 0;
    this.height = 0;
    this.left = 0;
    this.theme = readTheme(host);
    this.plot = append(host, "div", "plot");
    this.canvas = /** @type {HTMLCanvasElement} */ (append(host, "canvas", "overlay"));
    this.host.addEventListener("wheel", (event) => this._wheel(event), { capture: true, passive: false });
  }

  render() {}

  draw() {}

  /** What follows the pointer goes away: the drawing moves below it. */
  _leave() {}

  /** Sets how far x goes; what the user zoomed into stays within. @param {number} low @param {number} high */
  _bound(low, high) {
    this.full = [low, high];
    if (this.span) this.span = within(this.span, this.full, this.narrowest);
  }

  /** What x shows. @returns {[number, number]} */
  get range() {
    const axis = /** @type {any} */ (this.plot)._fullLayout?.xaxis;
    const { scale, offset } = this.unit;
    if (!axis) return this.span ?? this.full;
    return [(Number(axis.range[0]) - offset) / scale, (Number(axis.range[1]) - offset) / scale];
  }

  /** A value as the axis has it. @param {number} value */
  _onAxis(value) {
    return this.unit.offset + value * this.unit.scale;
  }

  /** The value at a place. @param {number} x px from the plot's left */
  valueAt(x) {
    const [from, to] = this.range;
    return from + (x / this.inner) * (to - from);
  }

  /** A value as text. @param {number} value */
  moment(value) {
    return moment(this.unit, value);
  }

  /** A difference of two values as text. @param {number} value */
  length(value) {
    return length(this.unit, value);
  }

  fit() {
    this.zoomTo(null);
  }

  /** @param {number} factor below 1 shows less, larger */
  zoom(factor) {
    const [from, to] = this.range;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    this.zoomTo([middle - half, middle + half]);
  }

  /** @param {[number, number] | null} span */
  zoomTo(span) {
    const kept = span && within(span, this.full, this.narrowest);
    // Whoever zooms out as far as it goes wants all of the next drawing too.
    this.span = kept && this._isPart(kept) ? kept : null;
    if (window.Plotly) this.busy = window.Plotly.relayout(this.plot, { "xaxis.range": this._axisRange() });
    else this._moved();
  }

  /** Moves by a part of what is shown. @param {number} part below 0 to the left */
  pan(part) {
    const [from, to] = this.range;
    const shift = part * (to - from);
    this.zoomTo([from + shift, to + shift]);
  }

  /** What is to be shown, as the axis has it. */
  _axisRange() {
    return (this.span || this.full).map((value) => this._onAxis(value));
  }

  /** @param {[number, number]} span */
  _isPart([from, to]) {
    return to - from < SLACK * (this.full[1] - this.full[0]);
  }

  // Plotly ------------------------------------------------------------------------------------------------------------

  /** Draws the axis and what Plotly itself is to draw, and fits the canvas to it. @param {any[]} traces */
  _react(traces = []) {
    this.host.style.height = `${TOP + this.height + BOTTOM}px`;
    if (window.Plotly) {
      this.busy = window.Plotly.react(this.plot, traces, this._layout(), {
        displayModeBar: false,
        doubleClick: false,
        scrollZoom: true,
        showTips: false,
      });
      this._listen();
    }
    sizeCanvas(this.canvas, this.width, TOP + this.height + BOTTOM);
    this._moved();
  }

  _layout() {
    const { theme, unit } = this;
    return {
      width: this.width,
      height: TOP + this.height + BOTTOM,
      margin: { l: this.left, r: RIGHT, t: TOP, b: BOTTOM, pad: 0 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: theme.font, size: 12, color: theme.muted },
      showlegend: false,
      hovermode: false,
      dragmode: "pan",
      barmode: "overlay",
      xaxis: {
        range: this._axisRange(),
        minallowed: this._onAxis(this.full[0]),
        maxallowed: this._onAxis(this.full[1]),
        title: { text: unit.title, standoff: 10, font: { size: 12 } },
        tickformat: unit.ticks,
        ticks: "outside",
        ticklen: 5,
        tickcolor: theme.line,
        gridcolor: theme.grid,
        linecolor: theme.line,
        showline: true,
        zeroline: false,
        automargin: false,
      },
      yaxis: { range: [this.height, 0], fixedrange: true, visible: false, automargin: false },
    };
  }

  _listen() {
    if (this._listening) return;
    this._listening = true;
    const plot = /** @type {any} */ (this.plot);
    plot.on("plotly_relayouting", () => {
      this._leave();
      this._moved();
    });
    plot.on("plotly_relayout", () => {
      const [from, to] = this.range;
      const kept = within([from, to], this.full, this.narrowest);
      if (Math.abs(kept[0] - from) + Math.abs(kept[1] - to) > 1e-6 * (this.full[1] - this.full[0])) {
        this.zoomTo(kept);
        return;
      }
      this.span = this._isPart([from, to]) ? [from, to] : null;
      this._moved();
    });
    plot.on("plotly_afterplot", () => this._moved());
    plot.on("plotly_doubleclick", () => this.fit());
  }

  _moved() {
    this.draw();
    this.onMoved();
  }

  /** Values to px from the plot's left, for the range that is shown now. @returns {Scale} */
  _scale() {
    const [from, to] = this.range;
    const pixels = this.inner / (to - from);
    return (value) => (value - from) * pixels;
  }

  /** The plot's width in px. */
  get inner() {
    return this.width - this.left - RIGHT;
  }

  /** A wheel turned sideways, or with Shift, pans; otherwise Plotly zooms. @param {WheelEvent} event */
  _wheel(event) {
    if (!event.isTrusted) return;
    this._leave();
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.shiftKey) {
      // Plotly zooms by 10% an event, however far the wheel was turned: a mouse's notch (100 or 120) is worth three.
      const { clientX, clientY, deltaY, target } = event;
      const drag = this.plot.querySelector(".nsewdrag");
      const onPlot = target instanceof Node && this.plot.contains(target);
      if (!onPlot) event.preventDefault();
      const again = { clientX, clientY, deltaY, bubbles: true, cancelable: true };
      for (let times = (Math.abs(deltaY) >= 100 ? 3 : 1) - Number(onPlot); times > 0; times -= 1) {
        (onPlot ? target : drag)?.dispatchEvent(new WheelEvent("wheel", again));
      }
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.pan((sideways ? event.deltaX : event.deltaY) / this.width);
  }
}

/** @param {HTMLCanvasElement} canvas @param {number} width px @param {number} height px */
export function sizeCanvas(canvas, width, height) {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ratio = ratioOf(canvas);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
}

/** A canvas's pixels for each of the page's. @param {HTMLCanvasElement} canvas */
function ratioOf(canvas) {
  return Math.min(window.devicePixelRatio || 1, MOST_PIXELS / Number.parseFloat(canvas.style.height));
}

/** A canvas as it is to be drawn on: cleared, and in the page's pixels. @param {HTMLCanvasElement} canvas */
export function cleared(canvas) {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const ratio = ratioOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width / ratio, canvas.height / ratio);
  return context;
}

/** @param {HTMLElement} parent @param {string} tag @param {string} className */
export function append(parent, tag, className) {
  const element = document.createElement(tag);
  element.className = className;
  parent.append(element);
  return element;
}

/** The page's colours, as Plotly and the canvas take them. @param {HTMLElement} element */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const variable = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    font: style.fontFamily,
    ink: variable("ink"),
    muted: variable("muted"),
    line: variable("line"),
    grid: variable("grid"),
    surface: variable("surface"),
    accent: variable("accent"),
    arrow: variable("arrow"),
    arrowHead: variable("arrow-head"),
  };
}
