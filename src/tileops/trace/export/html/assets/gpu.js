// The tab of the whole launch: the GPU map, what its colours stand for, and what is said of the CTA that is pointed at.

import { shades } from "./palette.js";
import { clock, counted, integer, nanoseconds, percent, shown, time } from "./format.js";
import { byId, fillAlerts, fillFacts, make, named } from "./elements.js";
import { durations, isOutlier, scaleOf, shares } from "./map_model.js";
import { GpuMap } from "./map.js";
import { Marks } from "./marks.js";
import { float } from "./tooltip.js";

export class GpuPanel {
  /**
   * @param {import("./recording.js").Recording} recording
   * @param {(position: number) => string} nameOf a CTA
   * @param {(position: number) => void} onOpen
   * @param {() => void} onChanged called when other times are shown, measured or coloured
   */
  constructor(recording, nameOf, onOpen, onChanged) {
    this.recording = recording;
    this.nameOf = nameOf;
    this.onChanged = onChanged;
    const { columns, head } = recording;
    const axisError = head.axisError;
    const point = this.point.bind(this);
    this.map = new GpuMap(byId("map"), columns, axisError, nameOf, point, onOpen);
    this.marks = new Marks(this.map, { snap: (x, y) => this.map.edgeNear(x, y), onSelect() {}, onRuler: onChanged });
    this.map.onMoved = () => {
      this.marks.place();
      onChanged();
    };
    this.durations = durations(columns);
    /** @type {string[]} */
    this.names = [...new Set(head.ranges.map((/** @type {any} */ [, name]) => String(name)))];
    /** @type {{share: Float64Array, cut: Int32Array} | null} */
    this.shares = null;
    this.fillCaption();
    this.fillChoice();
    this.listen();
    this.recolour();
  }

  /** The panel has just become visible. @param {number} position of the CTA that is open */
  show(position) {
    this.map.current = position;
    this.map.render();
  }

  /**
   * What is shown, as the page's address has it.
   * @returns {Pick<import("./hash.js").State, "map" | "mapRuler" | "colour">}
   */
  get state() {
    return { map: this.map.span, mapRuler: this.marks.ruler, colour: this.chosen ?? "" };
  }

  /** Shows what an address says, from the next drawing on. @param {import("./hash.js").State} state */
  restore(state) {
    this.map.span = state.map;
    this.marks.measure(state.mapRuler);
    byId("gpu-colour").value = state.colour === "" ? "" : String(this.names.indexOf(state.colour));
    this.recolour();
  }

  /** Draws in another theme. */
  retheme() {
    this.fillScale();
    this.map.render();
  }

  // Caption -----------------------------------------------------------------------------------------------------------

  fillCaption() {
    const { head, columns, count } = this.recording;
    const { places, known } = this.map;
    const { rows, timeless, from, to, seen, busy } = places;
    const unfinished = count - this.recording.total("finished");
    const launched = head.grid.reduce((/** @type {number} */ product, /** @type {number} */ one) => product * one, 1);
    const named = rows.filter(({ sm }) => sm >= 0);
    const idle = named.length - seen;
    const last = named.length ? named[named.length - 1].sm : -1;
    const device = head.meta.device ? shown(String(head.meta.device)) : "";
    byId("gpu-title").replaceChildren("GPU ", make("small", "", device));
    fillFacts(byId("gpu-facts"), [
      ["SMs seen", known ? integer(seen) + (idle ? ` of SM 0 to ${integer(last)}` : "") : integer(NaN)],
      ["CTAs", count < launched ? `${integer(count)} of ${integer(launched)}` : integer(count)],
      ["Whole span", known ? `${integer(to - from)} ns` : integer(NaN)],
      ["SM time busy", percent(busy) + (known && idle ? " of those seen" : "")],
      ["Did not finish", integer(unfinished), unfinished ? "bad" : ""],
    ]);
    /** @type {[string, string][]} */
    const alerts = [];
    if (count < launched) {
      const grid = `${integer(count)} of the grid’s ${counted(launched, "CTA")}`;
      alerts.push(["warn", `Shown are ${grid}, those recorded: an SM that looks idle may have run others.`]);
    }
    if (known && timeless.length) {
      const lost = timeless.filter((i) => !columns.cta_finished[i]).length;
      const why = lost === timeless.length ? ", since they did not finish" : "";
      alerts.push(["bad", `No time is known of ${counted(timeless.length, "CTA")}${why}: see below the SMs.`]);
    }
    fillAlerts(byId("gpu-alerts"), alerts);
    byId("gpu-card").classList.toggle("empty", !known);
    byId("gpu-nothing").hidden = known;
  }

  // Colours -----------------------------------------------------------------------------------------------------------

  fillChoice() {
    const select = byId("gpu-colour");
    const option = (/** @type {string} */ text, /** @type {string} */ value) => {
      const element = make("option", "", text);
      element.value = value;
      return element;
    };
    select.replaceChildren(option("Duration", ""));
    if (!this.names.length) return;
    const group = make("optgroup", "", ...this.names.map((name, at) => option(`Share of ${shown(name)}`, String(at))));
    group.label = "Share of a range in its CTA’s cycles";
    select.append(group);
  }

  /** The name of the range whose share is shown, or null for durations. */
  get chosen() {
    const { value } = byId("gpu-colour");
    return value === "" ? null : this.names[Number(value)];
  }

  recolour() {
    const { columns, head } = this.recording;
    const { chosen } = this;
    const wanted = head.ranges.map((/** @type {any} */ [, name]) => name === chosen);
    this.shares = chosen === null ? null : shares(columns, wanted);
    const values = this.shares ? this.shares.share : this.durations;
    this.scale = scaleOf(values);
    this.map.colour(values, this.scale);
    this.fillScale();
  }

  /** The scale's ends as text. */
  get ends() {
    const { scale, shares: made } = this;
    if (!scale) return ["", ""];
    const text = made ? percent : time;
    return [`${scale.below ? "≤ " : ""}${text(scale.low)}`, `${scale.above ? "≥ " : ""}${text(scale.high)}`];
  }

  fillScale() {
    const { scale, shares: made } = this;
    const all = shades(window.matchMedia("(prefers-color-scheme: dark)").matches);
    byId("scale").hidden = !scale;
    if (!scale) return;
    byId("scale-ramp").style.background = `linear-gradient(90deg, ${all.filter((_, i) => i % 7 === 0).join(", ")})`;
    const [low, high] = this.ends;
    byId("scale-low").textContent = low;
    byId("scale-high").textContent = high;
    const beyond = scale.below + scale.above;
    const values = made ? made.share : this.durations;
    const unknown = values.filter((value, i) => !Number.isFinite(value) && this.map.places.line[i] >= 0).length;
    const notes = [];
    if (beyond) notes.push(make("span", "", make("span", "dashes"), `${counted(beyond, "outlier")}, dashed`));
    if (unknown) notes.push(make("span", "", make("span", "swatch unknown"), `${integer(unknown)} not known`));
    byId("scale-notes").replaceChildren(...notes);
  }

  /** What the colours stand for. @returns {import("./save.js").Colours | null} null without a CTA that has a colour */
  get colours() {
    const { scale, chosen, map, ends } = this;
    const what = chosen === null ? "Duration" : `Share of ${shown(chosen)}`;
    return scale ? { what, ends, shades: /** @type {string[]} */ (map.shades) } : null;
  }

  // Tooltip -----------------------------------------------------------------------------------------------------------

  /**
   * @param {number} position or -1
   * @param {{x: number, y: number} | null} point
   * @param {boolean} said by the keyboard
   */
  point(position, point, said) {
    const key = `gpu ${position} ${this.chosen}`;
    float(key, position < 0 ? null : point, () => this.described(position));
    if (!said || position < 0) return;
    const { sm, cycles } = this.recording.cta(position);
    const lasts = `${time(this.durations[position])}, ${integer(cycles)} cycles`;
    byId("gpu-said").textContent = `CTA ${this.nameOf(position)}, ${sm < 0 ? "SM not known" : `SM ${sm}`}, ${lasts}`;
  }

  /** @param {number} position @returns {Node[]} */
  described(position) {
    const { scale, chosen, shares: made } = this;
    const cta = this.recording.cta(position);
    const line = (/** @type {(Node | string)[]} */ title, /** @type {string} */ value, className = "") =>
      make("tr", className, make("th", "", ...title), make("td", "", value));
    const ns = (/** @type {number} */ value) => nanoseconds(value) + (Number.isFinite(value) ? " ns" : "");
    const swatch = make("span", "swatch");
    swatch.style.background = this.map.places.line[position] < 0 ? "var(--bad)" : this.map.colourOf(position);
    const table = make(
      "table", "lines",
      line(["begin"], ns(cta.beginNs)),
      line(["end"], ns(cta.endNs)),
      line(["duration"], ns(this.durations[position])),
      line(["cycles"], integer(cta.cycles)),
      line(["clock"], clock(cta.ghz)),
    );
    const parts = [
      make("p", "what", swatch, `CTA ${this.nameOf(position)}`),
      make("p", "where", cta.sm < 0 ? "SM not known" : `SM ${cta.sm}`),
      table,
    ];
    if (made && chosen !== null) {
      table.append(line(["share of ", named(chosen)], percent(made.share[position])));
      if (made.cut[position]) {
        parts.push(make("p", "cut", `${counted(made.cut[position], "cut range")} of that name left out of the share.`));
      }
    }
    table.append(line(["dropped events"], integer(cta.dropped), cta.dropped ? "bad" : ""));
    const values = made ? made.share : this.durations;
    if (scale && isOutlier(values[position], scale)) {
      parts.push(make("p", "cut", "Outlier: far from the middle half of all CTAs."));
    }
    if (!cta.finished) parts.push(make("p", "cut bad", "Did not finish: nothing of it can be trusted."));
    return parts;
  }

  // Input -------------------------------------------------------------------------------------------------------------

  listen() {
    byId("gpu-colour").addEventListener("change", () => {
      this.recolour();
      this.onChanged();
    });
    byId("gpu-fit").addEventListener("click", () => this.map.fit());
    byId("gpu-zoom-in").addEventListener("click", () => this.map.zoom(0.5));
    byId("gpu-zoom-out").addEventListener("click", () => this.map.zoom(2));
    for (const tool of /** @type {("pan" | "ruler")[]} */ (["pan", "ruler"])) {
      byId(`gpu-${tool}`).addEventListener("click", () => this.use(tool));
    }
  }

  /** What a drag does. @param {"pan" | "ruler"} tool */
  use(tool) {
    for (const id of ["pan", "ruler"]) byId(`gpu-${id}`).setAttribute("aria-pressed", String(id === tool));
    this.marks.use(tool);
  }

  /** Takes back what was measured. */
  clear() {
    this.marks.measure(null);
    this.onChanged();
  }
}
