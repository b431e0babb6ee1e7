// Choosing a CTA: the strip of tabs, the box that filters it, and the fastest, the median and the slowest at a click.

import { counted, integer } from "./format.js";
import { coordinates, matching, ranked } from "./filter.js";
import { byId, make } from "./elements.js";

/** @typedef {import("./recording.js").Recording} Recording */

const MOST = 400; // tabs that are there at a time: 10,000 took 2 s of the page's opening (two cores)
const GAP = 4; // px between tabs

export class Picker {
  /**
   * @param {Recording} recording
   * @param {(position: number) => void} onOpen
   */
  constructor(recording, onOpen) {
    this.recording = recording;
    this.onOpen = onOpen;
    this.strip = byId("tabs");
    this.position = -1; // of the CTA that is open
    this.selected = false; // whether it, and not the whole launch, is what is shown
    /** @type {number[]} */
    this.all = Array.from({ length: recording.count }, (_, position) => position);
    this.listed = this.all;
    /** @type {Map<number, any>} */
    this.tabs = new Map();
    this.sizer = make("div", "sizer");
    this.sizer.setAttribute("role", "presentation");
    this.strip.append(this.sizer);
    this._measure();
    this._list(null);
    this._listen();
  }

  /** Marks the CTA that is open. @param {number} position @param {boolean} selected whether its panel is what is shown */
  mark(position, selected) {
    const moved = position !== this.position;
    this.position = position;
    this.selected = selected;
    if (moved) this._reveal();
    this._render();
  }

  /** Lists a CTA that the box hides, and focuses its tab. @param {number} position */
  focus(position) {
    if (!this.listed.includes(position)) this._unfilter();
    this._reveal();
    this._render();
    this.tabs.get(position)?.focus({ preventScroll: true });
  }

  /** Opens the tab that is so many steps along the listed ones. @param {number} steps */
  step(steps) {
    const { listed } = this;
    if (!listed.length) return;
    const at = listed.indexOf(this.position);
    const next = at < 0 ? 0 : Math.min(Math.max(at + steps, 0), listed.length - 1);
    if (listed[next] !== this.position) this.onOpen(listed[next]);
  }

  // Tabs --------------------------------------------------------------------------------------------------------------

  /** All tabs are as wide as the widest: where one is follows from its place in the list. */
  _measure() {
    const { columns, head } = this.recording;
    let widest = 0;
    let length = -1;
    for (const position of this.all) {
      const text = `${columns.cta_x[position]}${columns.cta_y[position]}${columns.cta_z[position]}${columns.cta_cta[position]}`;
      if (text.length > length) [widest, length] = [position, text.length];
    }
    if (length < 0) return;
    const probe = this._make(widest);
    probe.classList.add("dropped");
    probe.setAttribute("aria-selected", "true");
    this.strip.append(probe);
    const box = probe.getBoundingClientRect();
    probe.remove();
    this.pitch = Math.ceil(box.width) + GAP;
    this.sizer.style.height = `${Math.ceil(box.height)}px`;
    this.grid = head.grid;
  }

  /** @param {number} position */
  _make(position) {
    const { number, block, dropped, finished } = this.recording.cta(position);
    const tab = make("button", "tab", make("span", "block", coordinates(block, this.recording.head.grid)), " ");
    tab.append(make("span", "linear", `#${number}`));
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
    tab.setAttribute("aria-setsize", String(this.listed.length));
    tab.dataset.position = String(position);
    if (!finished) tab.classList.add("unfinished");
    if (dropped) tab.classList.add("dropped");
    if (!finished) tab.title = "did not finish";
    else if (dropped) tab.title = `${counted(dropped, "event")} dropped`;
    return tab;
  }

  /** Has the tabs that are in view, and the open CTA's, whatever is in view. */
  _render() {
    const { listed, strip } = this;
    const pitch = this.pitch ?? 1;
    const half = MOST / 2;
    const middle = Math.round((strip.scrollLeft + strip.clientWidth / 2) / pitch);
    const first = Math.max(0, Math.min(middle - half, listed.length - MOST));
    const wanted = new Map(listed.slice(first, first + MOST).map((position, at) => [position, first + at]));
    const open = listed.indexOf(this.position);
    if (open >= 0) wanted.set(this.position, open);
    // Where the box hides the open CTA's tab, another one takes the keyboard's focus.
    const stop = open >= 0 ? this.position : listed[first];
    for (const [position, tab] of this.tabs) {
      if (wanted.has(position)) continue;
      tab.remove();
      this.tabs.delete(position);
    }
    const made = document.createDocumentFragment();
    for (const [position, at] of wanted) {
      let tab = this.tabs.get(position);
      if (!tab) {
        tab = this._make(position);
        this.tabs.set(position, tab);
        made.append(tab);
      }
      const selected = position === this.position;
      tab.style.left = `${3 + at * pitch}px`;
      tab.style.width = `${pitch - GAP}px`;
      tab.setAttribute("aria-selected", String(selected && this.selected));
      tab.setAttribute("aria-posinset", String(at + 1));
      tab.tabIndex = position === stop ? 0 : -1;
    }
    strip.append(made);
    this._fade();
  }

  /** Shows the tabs of these CTAs alone. @param {number[] | null} positions */
  _list(positions) {
    const { count } = this.recording;
    this.listed = positions ?? this.all;
    this.sizer.style.width = `${this.listed.length * (this.pitch ?? 0)}px`;
    byId("found").textContent = positions ? `${integer(positions.length)} of ${integer(count)}` : counted(count, "CTA");
    byId("picker").classList.toggle("none", positions !== null && positions.length === 0);
    for (const tab of this.tabs.values()) tab.setAttribute("aria-setsize", String(this.listed.length));
    this._reveal();
    this._render();
  }

  _unfilter() {
    byId("filter").value = "";
    this._list(null);
  }

  /** Scrolls the strip, and nothing but the strip, until the open CTA's tab is well inside it. */
  _reveal() {
    const { strip } = this;
    const at = this.listed.indexOf(this.position);
    if (at < 0) return;
    const pitch = this.pitch ?? 0;
    const margin = Math.min(60, strip.clientWidth / 4);
    const [from, to] = [at * pitch, (at + 1) * pitch];
    if (from - margin < strip.scrollLeft) strip.scrollLeft = from - margin;
    else if (to + margin > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = to + margin - strip.clientWidth;
  }

  /** Fades the strip's edges where it goes on behind them. */
  _fade() {
    const { scrollLeft, clientWidth, scrollWidth, classList } = this.strip;
    classList.toggle("more-left", scrollLeft > 1);
    classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 1);
  }

  // Input -------------------------------------------------------------------------------------------------------------

  _listen() {
    const { strip } = this;
    const { columns } = this.recording;
    const filter = byId("filter");
    const blocks = [columns.cta_x, columns.cta_y, columns.cta_z];
    filter.addEventListener("input", () => this._list(matching(filter.value, columns.cta_cta, blocks)));
    filter.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && this.listed.length) this.onOpen(this.listed[0]);
      if (event.key === "Escape") this._unfilter();
    });
    for (const [id, fraction] of /** @type {[string, number][]} */ ([["fastest", 0], ["median", 0.5], ["slowest", 1]])) {
      const position = ranked(columns.cta_cycles, columns.cta_finished, fraction);
      const button = byId(id);
      button.disabled = position < 0;
      button.addEventListener("click", () => {
        if (!this.listed.includes(position)) this._unfilter();
        this.onOpen(position);
      });
    }
    strip.addEventListener("click", (/** @type {any} */ event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.onOpen(Number(tab.dataset.position));
    });
    strip.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const { length } = this.listed;
      const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -length, End: length }[event.key];
      if (!steps) return;
      event.preventDefault();
      this.step(steps);
      this.tabs.get(this.position)?.focus({ preventScroll: true });
    });
    strip.addEventListener(
      "wheel",
      (/** @type {WheelEvent} */ event) => {
        if (Math.abs(event.deltaX) >= Math.abs(event.deltaY)) return;
        event.preventDefault();
        strip.scrollLeft += event.deltaY;
      },
      { passive: false },
    );
    strip.addEventListener("scroll", () => this._render());
    new ResizeObserver(() => this._render()).observe(strip);
    byId("previous").addEventListener("click", () => this.step(-1));
    byId("next").addEventListener("click", () => this.step(1));
  }
}
