// All of a CTA in a few pixels, with a window on what the figure shows.

import { colourOf } from "./palette.js";
import { cleared, sizeCanvas } from "./plane.js";

const LINE = 4; // px a row
const GAP = 2;
const LEAST = 26; // px of height
const EDGE = 7; // px of the window's ends that take hold of them
const LEAST_WIDTH = 12; // px of the window, for a pointer to hit it

export class Minimap {
  /**
   * @param {HTMLElement} host
   * @param {(span: [number, number]) => void} onMove to another span, in cycles
   */
  constructor(host, onMove) {
    this.host = host;
    this.onMove = onMove;
    this.canvas = document.createElement("canvas");
    this.window = document.createElement("div");
    this.window.className = "window";
    host.replaceChildren(this.canvas, this.window);
    /** @type {[number, number]} */
    this.full = [0, 1];
    /** @type {[number, number]} */
    this.range = [0, 1];
    this._watch();
  }

  /**
   * Draws a CTA.
   * @param {import("./model.js").Scene} scene
   * @param {[number, number]} full what it spans
   * @param {{left: number, inner: number}} place of the figure's plot, in px
   */
  show(scene, full, { left, inner }) {
    const lanes = scene.rows.length;
    this.full = full;
    this.inner = inner;
    const height = Math.max(LEAST, lanes * (LINE + GAP) + GAP);
    this.host.style.margin = `0 0 0 ${left}px`;
    this.host.style.width = `${inner}px`;
    this.host.style.height = `${height}px`;
    sizeCanvas(this.canvas, inner, height);
    const context = cleared(this.canvas);
    if (!context) return;
    const { start, duration, range } = scene.events.slices;
    const scale = inner / (full[1] - full[0]);
    const above = (height - lanes * (LINE + GAP) + GAP) / 2;
    const { ranges } = scene.head;
    for (const i of scene.slices) {
      const [lane, name] = ranges[range[i]];
      context.fillStyle = colourOf(name);
      context.fillRect((start[i] - full[0]) * scale, above + lane * (LINE + GAP), Math.max(duration[i] * scale, 0.4), LINE);
    }
  }

  /** Moves the window. @param {[number, number]} range that the figure shows */
  place(range) {
    this.range = range;
    const inner = this.inner ?? 0;
    const scale = inner / (this.full[1] - this.full[0]);
    const width = Math.min(Math.max((range[1] - range[0]) * scale, LEAST_WIDTH), inner);
    const left = Math.min(Math.max(((range[0] + range[1]) / 2 - this.full[0]) * scale - width / 2, 0), inner - width);
    this.window.style.transform = `translateX(${left}px)`;
    this.window.style.width = `${width}px`;
    this.host.classList.toggle("whole", width >= inner - 1);
  }

  /** @param {PointerEvent} event */
  _at(event) {
    const box = this.host.getBoundingClientRect();
    return this.full[0] + ((event.clientX - box.left) / (this.inner ?? 1)) * (this.full[1] - this.full[0]);
  }

  _watch() {
    const { host } = this;
    /** @type {((at: number) => [number, number]) | null} */
    let drag = null;
    host.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const box = this.window.getBoundingClientRect();
      const [from, to] = this.range;
      const begin = this._at(event);
      const whole = host.classList.contains("whole");
      if (Math.abs(event.clientX - box.left) <= EDGE) drag = (at) => [Math.min(at, to - 1), to];
      else if (Math.abs(event.clientX - box.right) <= EDGE) drag = (at) => [from, Math.max(at, from + 1)];
      // Where all is in view, a drag says which part shall be.
      else if (whole) drag = (at) => (at < begin ? [at, begin] : [begin, at]);
      else if (event.clientX > box.left && event.clientX < box.right) drag = (at) => [from + at - begin, to + at - begin];
      else {
        const half = (to - from) / 2;
        drag = (at) => [at - half, at + half];
        this.onMove(drag(begin));
      }
      host.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    host.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const span = drag(this._at(event));
      if (span[1] - span[0] > 0) this.onMove(span);
    });
    const end = () => (drag = null);
    host.addEventListener("pointerup", end);
    host.addEventListener("pointercancel", end);
  }
}
