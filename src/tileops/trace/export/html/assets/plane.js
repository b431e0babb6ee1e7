// A plot that zooms and pans along x and nothing else: Plotly draws the axis and takes the gestures, a canvas above it
// holds the drawing.

import { BOTTOM, RIGHT, TOP, append, readTheme } from "./figure.js";
import { within } from "./model.js";

const SLACK = 0.995; // of the whole: a span that is wider counts as all of it

/** @typedef {(value: number) => number} Scale to px from the plot's left */

/** What draws itself implements `render` and `draw`, and sets `left`, `height` and `full` before it calls `_react`. */
export class Plane {
  /**
   * @param {HTMLElement} host
   * @param {string} title the axis's
   * @param {number} narrowest span that is shown: ticks stay whole numbers
   */
  constructor(host, title, narrowest) {
    this.host = host;
    this.title = title;
    this.narrowest = narrowest;
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

  /** What x shows. @returns {[number, number]} */
  get range() {
    const axis = /** @type {any} */ (this.plot)._fullLayout?.xaxis;
    return axis ? [Number(axis.range[0]), Number(axis.range[1])] : this.full;
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
    this.span = kept && this._isPart(kept) ? kept : null;
    this.busy = window.Plotly.relayout(this.plot, { "xaxis.range": [...(this.span || this.full)] });
  }

  /** @param {[number, number]} span */
  _isPart([from, to]) {
    return to - from < SLACK * (this.full[1] - this.full[0]);
  }

  // Plotly ------------------------------------------------------------------------------------------------------------

  _react() {
    this.host.style.height = `${TOP + this.height + BOTTOM}px`;
    this.busy = window.Plotly.react(this.plot, [], this._layout(), {
      displayModeBar: false,
      doubleClick: false,
      scrollZoom: true,
      showTips: false,
    });
    this._listen();
    sizeCanvas(this.canvas, this.width, TOP + this.height + BOTTOM);
  }

  _layout() {
    const { theme } = this;
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
      xaxis: {
        range: [...(this.span || this.full)],
        minallowed: this.full[0],
        maxallowed: this.full[1],
        title: { text: this.title, standoff: 10, font: { size: 12 } },
        tickformat: ",d",
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
      this.draw();
    });
    plot.on("plotly_relayout", () => {
      const [from, to] = this.range;
      const kept = within([from, to], this.full, this.narrowest);
      if (Math.abs(kept[0] - from) + Math.abs(kept[1] - to) > 1e-6 * (this.full[1] - this.full[0])) {
        this.zoomTo(kept);
        return;
      }
      this.span = this._isPart([from, to]) ? [from, to] : null;
      this.draw();
    });
    plot.on("plotly_afterplot", () => this.draw());
    plot.on("plotly_doubleclick", () => this.fit());
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
      const { clientX, clientY, deltaY } = event;
      const again = { clientX, clientY, deltaY, bubbles: true, cancelable: true };
      for (let extra = 0; extra < 2 && Math.abs(deltaY) >= 100; extra += 1) {
        event.target?.dispatchEvent(new WheelEvent("wheel", again));
      }
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const [from, to] = this.range;
    const shift = ((sideways ? event.deltaX : event.deltaY) * (to - from)) / this.width;
    this.zoomTo([from + shift, to + shift]);
  }
}

/** @param {HTMLCanvasElement} canvas @param {number} width px @param {number} height px */
export function sizeCanvas(canvas, width, height) {
  const ratio = ratioOf(height);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}

/** A canvas's pixels for each of the page's: no browser draws one of more than some ten thousand. @param {number} height */
export function ratioOf(height) {
  return Math.min(window.devicePixelRatio || 1, 16000 / height);
}
