// The page: holds its state, and has each part show it.

import { clock, counted, integer, nanoseconds, shown, time } from "./format.js";
import { unpack } from "./recording.js";
import { coordinates } from "./filter.js";
import { byId, fillAlerts, fillFacts, make } from "./elements.js";
import { formatHash, initial, parseHash } from "./hash.js";
import { alike, following, occurrences, sought } from "./occurrences.js";
import { CYCLES, UNITS, unitOf } from "./units.js";
import { described, float } from "./tooltip.js";
import { fillHeader } from "./header.js";
import { fillLegend } from "./legend.js";
import { bind, fillHelp } from "./keys.js";
import { loadLibrary } from "./library.js";
import { saveFigure, saveMap } from "./save.js";
import { Figure } from "./figure.js";
import { GpuPanel } from "./gpu.js";
import { Marks } from "./marks.js";
import { Minimap } from "./minimap.js";
import { Picker } from "./picker.js";
import { Summary } from "./summary.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./marks.js").Tool} Tool */

const SETTLED = 200; // ms without a change after which the address has it
const AROUND = 0.1; // of a span that is zoomed to, shown on both of its sides

class Page {
  /** @param {Recording} recording */
  constructor(recording) {
    this.recording = recording;
    this.head = recording.head;
    this.position = -1;
    this.state = initial();
    /** @type {import("./figure.js").Hidden} */
    this.hidden = { names: new Set(), edges: new Set() };
    /** @type {GpuPanel | null} */
    this.gpu = null;
    /** @type {import("./model.js").Scene | null} what the minimap has */
    this.mapped = null;
    this.restoring = false;
    this.drawn = NaN; // ms from the page's opening until its first CTA could be seen
    this.complete = NaN; // and until its axis, and all that Plotly does
    this.cta = recording.cta(0);
    this.events = recording.events(0);
    this.unit = CYCLES;
    fillHeader(recording, (position) => this.nameOf(position));
    this.figure = new Figure(
      byId("figure"), this.head, (hit, event) => this.tell(hit, event), (slice) => this.choose(slice),
    );
    this.marks = new Marks(this.figure, {
      snap: (x, y) => this.figure.edgeNear(x, y),
      onSelect: (span) => this.select(span),
      onRuler: (span) => this.measure(span),
    });
    this.minimap = new Minimap(byId("minimap"), (span) => this.figure.zoomTo(span));
    this.summary = new Summary();
    this.picker = new Picker(recording, (position) => this.open(position));
    this.figure.onMoved = () => this.moved();
    byId("unit").replaceChildren(...UNITS.map(([key, text]) => {
      const option = make("option", "", text);
      option.value = key;
      return option;
    }));
    const { slice_payload_kind: ofSlices, instant_payload_kind: ofInstants } = recording.columns;
    byId("payloads").disabled = ofSlices.length + ofInstants.length === 0;
    this.listen();
    if (recording.count) this.restore();
    byId("picker").hidden = byId("panel").hidden = recording.count === 0;
  }

  /** @param {number} position */
  nameOf(position) {
    const { number, block } = this.recording.cta(position);
    return `${coordinates(block, this.head.grid)} #${number}`;
  }

  // State -------------------------------------------------------------------------------------------------------------

  /** Shows what the page's address says, and what of it cannot be shown. */
  restore() {
    const { state, wrong } = parseHash(window.location.hash);
    this.restoring = true;
    const { columns } = this.recording;
    let position = state.cta === null ? -1 : columns.cta_cta.indexOf(state.cta);
    if (state.cta !== null && position < 0) wrong.push(`cta=${state.cta}`);
    // Whoever opens a page to look at one CTA wants one that can be trusted.
    if (position < 0) position = Math.max(0, columns.cta_finished.indexOf(1));
    const { ranges, marks } = this.head;
    const names = new Set([...ranges, ...marks].map(([, name]) => name));
    const edges = this.head.edges.map((edge) => edge.join("→"));
    wrong.push(...state.hidden.filter((name) => !names.has(name)).map((name) => `hide=${name}`));
    wrong.push(...state.arrows.filter((edge) => !edges.includes(edge)).map((edge) => `hide-arrows=${edge}`));
    if (state.colour && ![...ranges].some(([, name]) => name === state.colour)) {
      wrong.push(`colour=${state.colour}`);
      state.colour = "";
    }
    this.hidden.names = new Set(state.hidden.filter((name) => names.has(name)));
    this.hidden.edges = new Set([...edges.keys()].filter((edge) => state.arrows.includes(edges[edge])));
    byId("search").value = state.find;
    byId("unit").value = state.unit;
    byId("payloads").setAttribute("aria-pressed", String(state.payloads));
    this.figure.payloads = state.payloads;
    this.figure.sought = sought(this.head, state.find);
    this.figure.span = state.span;
    this.state = { ...state, slice: null };
    this.open(position);
    const known = state.slice !== null && state.slice < this.events.slices.count;
    if (state.slice !== null && !known) wrong.push(`slice=${state.slice}`);
    this.choose(known ? /** @type {number} */ (state.slice) : -1);
    this.select(state.selection);
    this.measure(state.ruler);
    this.gpu?.restore(this.state);
    if (state.view === "gpu") this.openGpu();
    this.restoring = false;
    // An address that says something says what is shown; one that says nothing stays short.
    if (window.location.hash) this.changed();
    byId("link").replaceChildren();
    if (wrong.length) {
      const text = `This recording has nothing for a part of the link: ${wrong.map(shown).join(", ")}.`;
      fillAlerts(byId("link"), [["warn", text]]);
    }
  }

  /** The state has changed: the page's address follows, once it stays as it is. */
  changed() {
    if (this.restoring) return;
    window.clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.store(), SETTLED);
  }

  store() {
    const { head, hidden, state } = this;
    state.cta = this.recording.cta(this.position).number;
    state.span = this.figure.span;
    if (this.gpu) Object.assign(state, this.gpu.state);
    state.hidden = [...hidden.names].sort();
    state.arrows = [...hidden.edges].map((edge) => head.edges[edge].join("→"));
    const hash = formatHash(state);
    try {
      window.history.replaceState(null, "", `#${hash}`);
    } catch (error) {
      // In a notebook's frame, the page has no address that could be kept.
      if (!(error instanceof DOMException)) throw error;
    }
  }

  // Which CTA, or the whole launch --------------------------------------------------------------------------------------

  /** @param {number} position */
  open(position) {
    if (position !== this.position) {
      this.position = position;
      this.state.slice = null;
      this.figure.chosen = -1;
      // What was marked in one CTA means nothing in another.
      this.select(null);
      this.measure(null);
    }
    this.show("cta");
    this.showCta();
  }

  /** Shows the panel of the whole launch or that of one CTA. @param {"gpu" | "cta"} view */
  show(view) {
    const gpu = view === "gpu";
    this.state.view = view;
    byId("gpu").setAttribute("aria-selected", String(gpu));
    byId("gpu-panel").hidden = !gpu;
    byId("panel").hidden = gpu;
    this.picker.mark(this.position, !gpu);
    float("", null, () => []);
    this.changed();
  }

  openGpu() {
    this.show("gpu");
    // Most of whom open a page look at a CTA or two: what the map needs is made when it is asked for.
    if (!this.gpu) {
      const open = (/** @type {number} */ position) => this.openFromGpu(position);
      this.gpu = new GpuPanel(this.recording, (position) => this.nameOf(position), open, () => this.changed());
      this.gpu.restore(this.state);
    }
    this.gpu.show(this.position);
  }

  /** Opens a CTA from the map, whatever the filter lists, and focuses its tab. @param {number} position */
  openFromGpu(position) {
    this.open(position);
    this.picker.focus(position);
  }

  switchView() {
    if (!this.recording.count) return;
    if (this.state.view === "gpu") {
      this.openFromGpu(this.position);
      return;
    }
    this.openGpu();
    byId("map").focus({ preventScroll: true });
  }

  // One CTA -----------------------------------------------------------------------------------------------------------

  showCta() {
    const { head, recording, state } = this;
    const cta = recording.cta(this.position);
    this.cta = cta;
    this.events = recording.events(this.position);
    this.unit = unitOf(state.unit, cta);
    byId("panel").setAttribute("aria-label", `CTA ${this.nameOf(this.position)}`);
    byId("cta").replaceChildren("CTA ", coordinates(cta.block, head.grid), " ", make("small", "", `#${cta.number}`));
    /** @type {[string, string, string?][]} */
    const facts = [
      ["SM", cta.sm >= 0 ? integer(cta.sm) : "unknown"],
      ["Cycles", integer(cta.cycles)],
      ["Time", time(cta.endNs - cta.beginNs)],
      ["Begins at", Number.isFinite(cta.beginNs) ? `+${time(cta.beginNs)}` : time(NaN)],
      ["Clock, measured", clock(cta.ghz)],
      ["Events", integer(cta.recorded)],
    ];
    if (cta.dropped) facts.push(["Dropped", integer(cta.dropped), "bad"]);
    fillFacts(byId("cta-facts"), facts);
    this.fillTroubles(cta);
    const rate = Number.isFinite(cta.ghz)
      ? `Here 1,000 cycles take ${nanoseconds(1000 / cta.ghz)} ns.`
      : "How long a cycle took is not known here.";
    byId("rate").textContent = this.unit.key === state.unit ? rate : `${rate} So the axis is in cycles.`;
    const { slices, instants } = this.events;
    const empty = slices.count + instants.count === 0;
    byId("nothing").hidden = !empty;
    byId("nothing").textContent = cta.finished
      ? "This CTA recorded no range and no instant."
      : "Nothing is known of this CTA, since it did not finish.";
    byId("timeline").classList.toggle("empty", empty);
    this.fillLegend();
    this.fillSummary();
    this.figure.show(this.events, cta.cycles, this.hidden, this.unit);
    this.fillHits();
  }

  /** @param {import("./recording.js").Cta} cta */
  fillTroubles(cta) {
    /** @type {[string, string][]} */
    const alerts = [];
    if (!cta.finished) {
      alerts.push(["bad", "This CTA did not finish: what is shown of it, if anything, is not all that it did."]);
    }
    for (const row of this.events.rows) {
      if (row.dropped) {
        const lost = counted(row.dropped, "event");
        const which = this.head.meta.keep === "last" ? "ahead of the last" : "after the first";
        alerts.push(["bad", `${shown(row.group)}: ${lost} dropped ${which} ${integer(row.recorded)}.`]);
      }
    }
    let cut = 0;
    for (let i = 0; i < this.events.slices.cut.length; i += 1) cut += this.events.slices.cut[i];
    if (cut) {
      alerts.push(["warn", `${counted(cut, "range")} cut: hatched, with a torn end, since no end was recorded.`]);
    }
    fillAlerts(byId("cta-alerts"), alerts);
  }

  fillLegend() {
    fillLegend(this.head, this.events, this.hidden, () => {
      this.fillLegend();
      this.figure.render();
      this.fillHits();
      this.changed();
    });
  }

  fillSummary() {
    this.summary.show(this.head, this.events, this.cta.cycles, this.state.selection, this.unit);
  }

  /** Another part of the CTA is shown, or in another place. */
  moved() {
    const { figure } = this;
    this.marks.place();
    if (figure.scene && figure.scene !== this.mapped) {
      this.mapped = figure.scene;
      this.minimap.show(figure.scene, figure.full, figure);
    }
    this.minimap.place(figure.range);
    if (String(this.figure.span) !== String(this.state.span)) {
      this.state.span = this.figure.span;
      this.changed();
    }
  }

  // What a user marks -------------------------------------------------------------------------------------------------

  /** @param {Tool} tool */
  use(tool) {
    for (const id of ["pan", "select", "ruler"]) byId(id).setAttribute("aria-pressed", String(id === tool));
    this.marks.use(tool);
  }

  /** @param {[number, number] | null} span in cycles */
  select(span) {
    // A range may be of no length; no time is selected with it.
    const selection = span && span[1] > span[0] ? span : null;
    this.state.selection = selection;
    this.marks.select(selection);
    this.fillSummary();
    this.changed();
  }

  /** @param {[number, number] | null} span in cycles */
  measure(span) {
    this.state.ruler = span;
    this.marks.measure(span);
    this.changed();
  }

  /** @param {number} slice of the CTA's, or -1 for none */
  choose(slice) {
    this.state.slice = slice < 0 ? null : slice;
    this.figure.choose(slice);
    this.fillHits();
    this.changed();
  }

  /** The time of the range that is chosen, or null. @returns {[number, number] | null} */
  get chosenSpan() {
    const { slice } = this.state;
    if (slice === null) return null;
    const { start, duration } = this.events.slices;
    return [start[slice], start[slice] + duration[slice]];
  }

  /** Takes back the last that was marked. */
  clear() {
    if (this.state.ruler) this.measure(null);
    else if (this.state.selection) this.select(null);
    else if (this.state.slice !== null) this.choose(-1);
    else if (this.state.find) this.search("");
  }

  /** Zooms to the selection, or to the range that is chosen. */
  focus() {
    const span = this.state.selection ?? this.chosenSpan;
    if (!span) return;
    const margin = AROUND * (span[1] - span[0]);
    this.figure.zoomTo([span[0] - margin, span[1] + margin]);
  }

  // Search ------------------------------------------------------------------------------------------------------------

  /** @param {string} text */
  search(text) {
    this.state.find = text;
    if (byId("search").value !== text) byId("search").value = text;
    this.figure.seek(sought(this.head, text));
    this.fillHits();
    this.changed();
  }

  /** The slices that "next" and "previous" go through: those searched for, else those like the one that is chosen. */
  get found() {
    const { slice } = this.state;
    const wanted = this.figure.sought ?? (slice === null ? null : alike(this.head, this.events.slices.range[slice]));
    if (!wanted) return null;
    const { names } = this.hidden;
    return occurrences(this.events, wanted.map((one, code) => one && !names.has(this.head.ranges[code][1])));
  }

  /** Chooses the next or the previous occurrence, and has it in view. @param {1 | -1} step */
  go(step) {
    const { found, events, figure } = this;
    if (!found) {
      byId("hits").textContent = "Click a range, or search for one, to go through its occurrences.";
      return;
    }
    const [from, to] = figure.range;
    const slice = following(found, this.state.slice ?? -1, from, events.slices.start, step);
    if (slice < 0) return;
    this.choose(slice);
    const [begin, end] = /** @type {[number, number]} */ (this.chosenSpan);
    if (begin >= from && end <= to) return;
    const half = Math.max(to - from, (1 + 2 * AROUND) * (end - begin)) / 2;
    figure.zoomTo([(begin + end) / 2 - half, (begin + end) / 2 + half]);
  }

  fillHits() {
    const { found } = this;
    const { slice } = this.state;
    const at = found && slice !== null ? found.indexOf(slice) : -1;
    const text = !found ? "" : at < 0 ? `${integer(found.length)} here` : `${integer(at + 1)} of ${integer(found.length)}`;
    byId("hits").textContent = text;
    byId("hits").classList.toggle("none", found !== null && found.length === 0);
    byId("before").disabled = byId("after").disabled = !found?.length;
  }

  // Tooltip -----------------------------------------------------------------------------------------------------------

  /** @param {import("./figure.js").Hit | null} hit @param {PointerEvent | null} event */
  tell(hit, event) {
    const point = event && { x: event.clientX, y: event.clientY };
    const key = hit ? `${this.position} ${hit.kind} ${hit.index}` : "";
    float(key, hit && point, () => (hit ? described(hit, this.head, this.events, this.cta) : []));
  }

  // Input -------------------------------------------------------------------------------------------------------------

  listen() {
    const click = (/** @type {string} */ id, /** @type {() => void} */ run) => byId(id).addEventListener("click", run);
    const { figure } = this;
    click("gpu", () => this.openGpu());
    click("fit", () => figure.fit());
    click("zoom-in", () => figure.zoom(0.5));
    click("zoom-out", () => figure.zoom(2));
    click("before", () => this.go(-1));
    click("after", () => this.go(1));
    click("payloads", () => this.togglePayloads());
    for (const tool of /** @type {Tool[]} */ (["pan", "select", "ruler"])) click(tool, () => this.use(tool));
    for (const format of /** @type {("png" | "svg")[]} */ (["png", "svg"])) {
      click(format, () => this.save(format));
      click(`gpu-${format}`, () => this.save(format));
    }
    const bindings = this.bindings();
    click("help-open", () => byId("help").showModal());
    fillHelp(bindings);
    bind(bindings);
    byId("unit").addEventListener("change", () => {
      this.state.unit = byId("unit").value;
      this.showCta();
      this.changed();
    });
    const search = byId("search");
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        this.search("");
        search.blur();
      }
    });
    window.addEventListener("hashchange", () => this.restore());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      figure.render();
      this.gpu?.retheme();
    });
  }

  togglePayloads() {
    if (byId("payloads").disabled) return;
    this.state.payloads = !this.state.payloads;
    byId("payloads").setAttribute("aria-pressed", String(this.state.payloads));
    this.figure.payloads = this.state.payloads;
    this.figure.draw();
    this.changed();
  }

  /** @returns {import("./keys.js").Binding[]} */
  bindings() {
    const { figure } = this;
    // The map has keys of its own while it is focused; in its panel, those of a CTA's figure do nothing, nor do they
    // where a CTA has nothing to draw.
    const here = (/** @type {(key: string) => void} */ run) => (/** @type {string} */ key) => {
      if (this.state.view === "cta" && figure.scene) run(key);
    };
    return [
      { keys: ["ArrowLeft", "ArrowRight", "a", "d"], shown: "← →", does: "pan",
        run: here((key) => figure.pan(key === "ArrowLeft" || key === "a" ? -0.2 : 0.2)) },
      { keys: ["+", "=", "w"], shown: "+", does: "zoom in", run: here(() => figure.zoom(0.5)) },
      { keys: ["-"], shown: "-", does: "zoom out", run: here(() => figure.zoom(2)) },
      { keys: ["0"], shown: "0", does: "show the whole CTA", run: here(() => figure.fit()) },
      { keys: ["f"], shown: "f", does: "zoom to the selection, or to the range that was clicked",
        run: here(() => this.focus()) },
      { keys: ["n", "p"], shown: "n p", does: "next, previous occurrence of what is searched for, or was clicked",
        run: here((key) => this.go(key === "n" ? 1 : -1)) },
      { keys: ["/"], shown: "/", does: "search", run: here(() => byId("search").focus()) },
      { keys: ["m"], shown: "m", does: "select the time of the range that was clicked",
        run: here(() => this.select(this.chosenSpan)) },
      { keys: ["v"], shown: "v", does: "drags pan", run: here(() => this.use("pan")) },
      { keys: ["s"], shown: "s", does: "drags select a span", run: here(() => this.use("select")) },
      { keys: ["r"], shown: "r", does: "drags measure", run: here(() => this.use("ruler")) },
      { keys: ["l"], shown: "l", does: "payloads in labels", run: here(() => this.togglePayloads()) },
      { keys: ["[", "]"], shown: "[ ]", does: "previous, next CTA", run: (key) => this.picker.step(key === "[" ? -1 : 1) },
      { keys: ["g"], shown: "g", does: "the GPU map, and back", run: () => this.switchView() },
      { keys: ["Escape"], shown: "Esc", does: "take back ruler, selection, choice and search, one after the other",
        run: (key) => (this.state.view === "gpu" ? this.gpu?.clear() : here(() => this.clear())(key)) },
      { keys: ["?"], shown: "?", does: "these keys", run: () => byId("help").showModal() },
    ];
  }

  /** @param {"png" | "svg"} format */
  async save(format) {
    const { head } = this;
    const kernel = String(head.meta.kernel ?? head.title);
    const stem = kernel.replace(/[^\w.-]+/g, "_").slice(0, 60) || "timeline";
    const device = head.meta.device ? ` · ${shown(String(head.meta.device))}` : "";
    if (this.state.view === "gpu" && this.gpu) {
      await saveMap(this.gpu.map, this.gpu.colours, format, `${shown(kernel)}${device}`, `${stem}-gpu`);
    } else {
      const title = `${shown(kernel)} · CTA ${this.nameOf(this.position)}${device}`;
      await saveFigure(this.figure, format, title, `${stem}-cta-${this.cta.number}`);
    }
  }
}

const frame = () => new Promise(requestAnimationFrame);

try {
  const recording = await unpack(JSON.parse(byId("head").textContent), byId("block").textContent);
  const page = new Page(recording);
  window.tileops = page;
  await frame();
  await frame();
  page.drawn = performance.now();
  if (await loadLibrary()) {
    page.figure.render();
    page.gpu?.map.render(); // open already where the address said so
  }
  page.complete = performance.now();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  const old = typeof DecompressionStream === "undefined";
  const text = old ? "This browser is too old for this page: it needs DecompressionStream (2023)." : String(error);
  byId("alerts").append(make("p", "alert bad", text));
  throw error;
}
