// What a user draws on a plot: the crosshair that follows the pointer, a selected span, and a ruler between two points.

import { append, RIGHT, TOP } from "./plane.js";

/** @typedef {import("./plane.js").Plane} Plane */
/** @typedef {"pan" | "select" | "ruler"} Tool */

const STILL = 3; // px that a pointer may move in a click

export class Marks {
  /**
   * @param {Plane} plane
   * @param {object} options
   * @param {(x: number, y: number) => number | null} options.snap the edge that is near a place, in px from the plot's
   *   left and top
   * @param {(span: [number, number] | null) => void} options.onSelect
   * @param {(span: [number, number] | null) => void} options.onRuler
   */
  constructor(plane, { snap, onSelect, onRuler }) {
    this.plane = plane;
    this.snap = snap;
    this.onSelect = onSelect;
    this.onRuler = onRuler;
    /** @type {Tool} */
    this.tool = "pan";
    /** @type {[number, number] | null} */
    this.selection = null;
    /** @type {[number, number] | null} */
    this.ruler = null;
    this.open = false; // the ruler's second point follows the pointer until a second click
    this.layer = append(plane.host, "div", "marks");
    this.band = append(this.layer, "div", "selection");
    this.bandText = append(this.band, "span", "said");
    this.points = [append(this.layer, "div", "point"), append(this.layer, "div", "point")];
    this.tape = append(this.layer, "div", "tape");
    this.tapeText = append(this.tape, "span", "said");
    this.cross = append(this.layer, "div", "cross");
    this.crossText = append(this.cross, "span", "said");
    this.cross.hidden = true;
    // Lies over the plot and takes its drags while they shall not pan.
    this.glass = append(plane.host, "div", "glass");
    this.glass.hidden = true;
    this._watch();
    this.place();
  }

  /** What a drag does. @param {Tool} tool */
  use(tool) {
    this.tool = tool;
    this.open = false;
    this.glass.hidden = tool === "pan";
    this.glass.dataset.tool = tool;
  }

  /** @param {[number, number] | null} span */
  select(span) {
    this.selection = span;
    this.place();
  }

  /** @param {[number, number] | null} span */
  measure(span) {
    this.ruler = span;
    if (!span) this.open = false;
    this.place();
  }

  /** Puts everything where the axis has it now. */
  place() {
    const { plane, selection, ruler } = this;
    this.band.hidden = !selection;
    this.tape.hidden = !ruler;
    this.points.forEach((point) => (point.hidden = !ruler));
    if (!plane.width) return;
    const toPixels = plane._scale();
    const { left, inner, height } = plane;
    this.layer.style.left = `${left}px`;
    this.layer.style.width = `${inner}px`;
    this.layer.style.height = `${TOP + height}px`;
    this.glass.style.left = `${left}px`;
    this.glass.style.right = `${RIGHT}px`;
    if (selection) stretch(this.band, toPixels(selection[0]), toPixels(selection[1]), inner);
    if (selection) this.bandText.textContent = plane.length(selection[1] - selection[0]);
    if (!ruler) return;
    stretch(this.tape, Math.min(...ruler.map(toPixels)), Math.max(...ruler.map(toPixels)), inner);
    this.tapeText.textContent = plane.length(Math.abs(ruler[1] - ruler[0]));
    ruler.forEach((value, i) => {
      const x = toPixels(value);
      this.points[i].hidden = x < 0 || x > inner;
      this.points[i].style.transform = `translateX(${x}px)`;
    });
  }

  /** @param {PointerEvent} event */
  _at(event) {
    const box = this.plane.host.getBoundingClientRect();
    const x = event.clientX - box.left - this.plane.left;
    return { x, y: event.clientY - box.top - TOP, value: this.plane.valueAt(x) };
  }

  /** Where a point of the ruler is set: on an edge that is near, but not with Alt. @param {PointerEvent} event */
  _snapped(event) {
    const { x, y, value } = this._at(event);
    return (event.altKey ? null : this.snap(x, y)) ?? value;
  }

  /** @param {PointerEvent} event */
  _follow(event) {
    const { plane } = this;
    const { x, value } = this._at(event);
    this.cross.hidden = !plane.width || x < 0 || x > plane.inner;
    if (this.cross.hidden) return;
    this.cross.style.transform = `translateX(${x}px)`;
    this.crossText.textContent = plane.moment(value);
    this.cross.classList.toggle("flipped", x > plane.inner - 110);
  }

  _watch() {
    const { plane, glass } = this;
    plane.host.addEventListener("pointermove", (event) => this._follow(event));
    plane.host.addEventListener("pointerleave", () => (this.cross.hidden = true));
    let begin = 0;
    let pressed = -1; // px, where a drag began
    glass.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      glass.setPointerCapture(event.pointerId);
      pressed = event.clientX;
      if (this.tool === "select") {
        begin = this._at(event).value;
      } else if (this.open) {
        this._set([begin, this._snapped(event)]);
      } else {
        begin = this._snapped(event);
        this._set([begin, begin]);
      }
    });
    glass.addEventListener("pointermove", (event) => {
      const dragging = pressed >= 0 && Math.abs(event.clientX - pressed) > STILL;
      if (this.tool === "select" && dragging) {
        const at = this._at(event).value;
        this._choose(at < begin ? [at, begin] : [begin, at]);
      } else if (this.tool === "ruler" && (dragging || this.open)) {
        this._set([begin, this._snapped(event)]);
      }
    });
    glass.addEventListener("pointerup", (event) => {
      const clicked = Math.abs(event.clientX - pressed) <= STILL;
      pressed = -1;
      if (this.tool === "select" && clicked) this._choose(null);
      if (this.tool === "ruler") this.open = clicked && !this.open;
    });
    glass.addEventListener("pointercancel", () => (pressed = -1));
  }

  /** @param {[number, number] | null} span */
  _choose(span) {
    this.select(span && plainly(span));
    this.onSelect(this.selection);
  }

  /** @param {[number, number]} span */
  _set(span) {
    this.measure(plainly(span));
    this.onRuler(this.ruler);
  }
}

/** To a tenth, as the page's address has it. @param {[number, number]} span @returns {[number, number]} */
function plainly([from, to]) {
  return [Math.round(10 * from) / 10, Math.round(10 * to) / 10];
}

/** @param {HTMLElement} element @param {number} from px @param {number} to px @param {number} inner px */
function stretch(element, from, to, inner) {
  const [left, right] = [Math.max(from, -2), Math.min(to, inner + 2)];
  element.hidden = right <= left && (to < 0 || from > inner);
  element.style.transform = `translateX(${left}px)`;
  element.style.width = `${Math.max(right - left, 1)}px`;
}
