// The page of a comparison: a CTA of each launch, under one another on one axis, and what changed.

import { clock, date, integer, percent, shown, time } from "./format.js";
import { colourOf } from "./palette.js";
import { unpack } from "./recording.js";
import { coordinates, ranked } from "./filter.js";
import { byId, fillAlerts, fillFacts, make, named } from "./elements.js";
import { CYCLES, UNITS, unitOf } from "./units.js";
import { described, float } from "./tooltip.js";
import { fillLegend } from "./legend.js";
import { bind } from "./keys.js";
import { loadLibrary } from "./library.js";
import { Figure, LEAST_SPAN } from "./figure.js";

/** @typedef {import("./recording.js").Recording} Recording */

/** What `Comparison.as_dict` gives, see docs/comparing.md. @typedef {any} Comparison */

/** One launch of the two. */
class Side {
  /**
   * @param {"before" | "after"} name
   * @param {Recording} recording
   * @param {Set<string>} hidden names
   */
  constructor(name, recording, hidden) {
    this.name = name;
    this.recording = recording;
    this.hidden = { names: hidden, edges: new Set() };
    this.position = 0;
    this.cta = recording.cta(0);
    this.events = recording.events(0);
    this.unit = CYCLES;
    this.figure = new Figure(byId(`${name}-figure`), recording.head, (hit, event) => this.tell(hit, event), () => {});
    const { meta } = recording.head;
    const said = [meta.device, meta.date && date(String(meta.date))].filter(Boolean).map(String);
    this.said = said.map(shown).join(" · ");
  }

  /** @param {number} position */
  open(position) {
    const { recording, name } = this;
    this.position = position;
    this.cta = recording.cta(position);
    this.events = recording.events(position);
    const { block, number, sm, cycles, ghz } = this.cta;
    const where = `CTA ${coordinates(block, recording.head.grid)} #${number}`;
    const title = name === "before" ? "Before" : "After";
    byId(`${name}-title`).replaceChildren(`${title} · ${where} `, make("small", "", this.said));
    fillFacts(byId(`${name}-facts`), [
      ["SM", sm >= 0 ? integer(sm) : "unknown"],
      ["Cycles", integer(cycles)],
      ["Time", time(this.cta.endNs - this.cta.beginNs)],
      ["Clock, measured", clock(ghz)],
    ]);
  }

  /** Whether there is something to draw of the CTA. */
  get empty() {
    return this.events.slices.count + this.events.instants.count === 0;
  }

  /**
   * Draws the CTA, on an axis of its own or on one that is given.
   * @param {[number, number] | null} extent how far the axis goes, in its unit
   * @param {number} left px for names, at least
   */
  show(extent, left) {
    const { name, figure, empty, unit } = this;
    byId(`${name}-figure`).hidden = empty;
    byId(`${name}-nothing`).hidden = !empty;
    byId(`${name}-nothing`).textContent = this.cta.finished
      ? "This CTA recorded no range and no instant."
      : "Nothing is known of this CTA, since it did not finish.";
    figure.extent = extent && [extent[0] / unit.scale, extent[1] / unit.scale];
    figure.leastLeft = left;
    if (!empty) figure.show(this.events, this.cta.cycles, this.hidden, unit);
  }

  /** @param {import("./figure.js").Hit | null} hit @param {PointerEvent | null} event */
  tell(hit, event) {
    const key = hit ? `${this.name} ${this.position} ${hit.kind} ${hit.index}` : "";
    float(key, hit && event && { x: event.clientX, y: event.clientY }, () => (
      hit ? described(hit, this.recording.head, this.events, this.cta) : []
    ));
  }
}

class Page {
  /** @param {Comparison} comparison @param {Recording} before @param {Recording} after */
  constructor(comparison, before, after) {
    this.comparison = comparison;
    /** @type {import("./figure.js").Hidden} edges by their places among those of both */
    this.hidden = { names: new Set(), edges: new Set() };
    const { names } = this.hidden;
    this.sides = [new Side("before", before, names), new Side("after", after, names)];
    this.following = false;
    this.fillHeader();
    this.fillChanges();
    this.fillFindings();
    byId("unit").replaceChildren(...UNITS.filter(([key]) => key !== "gpu").map(([key, text]) => {
      const option = make("option", "", text);
      option.value = key;
      return option;
    }));
    this.listen();
    if (before.count && after.count) this.pick(0.5);
    else byId("timelines").hidden = byId("picker").hidden = true;
  }

  // What changed ------------------------------------------------------------------------------------------------------

  fillHeader() {
    const { span_ns: span, launches, clock_ghz: ghz, caution } = this.comparison;
    const parts = [`${time(span.before)} before, ${time(span.after)} after`, `${signed(span.change)}: ${span.verdict}`];
    byId("span").replaceChildren(...parts.map((part) => make("span", "", part)));
    byId("reason").textContent = `${span.evidence}: ${span.reason}`;
    fillFacts(byId("facts"), [
      ["Launches before", integer(launches.before)],
      ["Launches after", integer(launches.after)],
      ["Clock before", clock(ghz.before ?? NaN)],
      ["Clock after", clock(ghz.after ?? NaN)],
    ]);
    fillAlerts(byId("alerts"), caution.map((/** @type {string} */ text) => ["warn", shown(text)]));
  }

  fillChanges() {
    const rows = this.comparison.ranges.map((/** @type {any} */ { group, lane, name, cycles }) => {
      const swatch = make("span", "swatch");
      swatch.style.background = colourOf(name);
      const spread = cycles.low === null ? "–" : `${signed(cycles.low)} to ${signed(cycles.high)}`;
      const verdict = make("td", cycles.verdict, cycles.verdict);
      verdict.title = cycles.reason;
      return make(
        "tr", "",
        make("th", "", swatch, named(name), make("span", "below", named(group), " / ", named(lane))),
        make("td", "where wide", named(group), " / ", named(lane)),
        make("td", "number", integer(cycles.before ?? NaN)),
        make("td", "number", integer(cycles.after ?? NaN)),
        make("td", "number", signed(cycles.change)),
        make("td", "wide", spread),
        verdict,
        make("td", "wide", cycles.evidence),
      );
    });
    byId("changes").replaceChildren(...rows);
    byId("summary").hidden = rows.length === 0;
  }

  fillFindings() {
    const { gone, new: added } = this.comparison.findings;
    const list = (/** @type {string} */ title, /** @type {any[]} */ findings) => (findings.length ? [
      make("h2", "", title),
      ...findings.map(({ rule, seen, win, evidence, next }) => {
        const bound = win ? `up to ${percent(win)} of the kernel, ${evidence}` : `about the recording, ${evidence}`;
        return make(
          "div", "finding",
          make("p", "", make("b", "", rule), ` ${bound}`), make("p", "", shown(seen)), make("p", "hint", shown(next)),
        );
      }),
    ] : []);
    byId("findings").replaceChildren(...list("Findings that are gone", gone), ...list("New findings", added));
    byId("findings").hidden = gone.length + added.length === 0;
  }

  // CTAs --------------------------------------------------------------------------------------------------------------

  /** Opens the CTA at a place in the order of cycles, of each launch. @param {number} fraction */
  pick(fraction) {
    this.open(this.sides.map(({ recording: { columns } }) => (
      Math.max(0, ranked(columns.cta_cycles, columns.cta_finished, fraction))
    )));
  }

  /** @param {number[]} positions one of each launch */
  open(positions) {
    this.sides.forEach((side, at) => side.open(positions[at]));
    const [before, after] = this.sides.map(({ cta }) => cta.number);
    byId("cta").value = before === after ? String(before) : "";
    byId("found").textContent = before === after ? "of both" : `#${before} before, #${after} after`;
    this.fillLegend();
    this.render();
  }

  /** One legend for both: a click hides a name, or an arrow between two names, in both figures. */
  fillLegend() {
    const merged = both(this.sides);
    fillLegend(merged.head, merged.events, this.hidden, () => {
      for (const { recording, hidden } of this.sides) {
        hidden.edges.clear();
        recording.head.edges.forEach((edge, at) => {
          if (this.hidden.edges.has(merged.edgeOf(edge))) hidden.edges.add(at);
        });
      }
      this.fillLegend();
      this.render();
    });
  }

  /** Both figures on one axis: as long as the longer one, and as far right as the wider names. */
  render() {
    const shown = this.sides.filter(({ empty }) => !empty);
    // Nanoseconds are one axis only where both clocks are known.
    const key = byId("unit").value;
    const known = shown.every(({ cta }) => unitOf(key, cta).key === key);
    this.sides.forEach((side) => (side.unit = unitOf(known ? key : "cycles", side.cta)));
    // What was zoomed into stays, in cycles of the first side that knows it.
    const zoomed = shown.find(({ figure }) => figure.span);
    const kept = zoomed?.figure.span?.map((end) => end * zoomed.unit.scale);
    this.following = true;
    this.sides.forEach((side) => side.show(null, 0));
    if (shown.length) {
      const ends = shown.map(({ unit, figure }) => figure.full.map((end) => end * unit.scale));
      const extent = /** @type {[number, number]} */ (
        [Math.min(...ends.map(([low]) => low)), Math.max(...ends.map(([, high]) => high))]
      );
      const left = Math.max(...shown.map(({ figure }) => figure.left));
      const narrowest = LEAST_SPAN * Math.max(...shown.map(({ unit }) => unit.scale));
      this.sides.forEach((side) => {
        const { scale } = side.unit;
        side.figure.narrowest = narrowest / scale;
        side.figure.span = kept ? [kept[0] / scale, kept[1] / scale] : null;
        side.show(extent, left);
      });
    }
    this.following = false;
  }

  /** Has the other figure show what this one does. @param {number} at */
  follow(at) {
    const [{ figure, unit }, other] = [this.sides[at], this.sides[1 - at]];
    if (this.following || other.empty) return;
    const ratio = unit.scale / other.unit.scale;
    const wanted = figure.range.map((end) => end * ratio);
    const off = wanted.map((end, i) => Math.abs(end - other.figure.range[i]));
    if (Math.max(...off) <= 1e-6 * (wanted[1] - wanted[0])) return;
    this.following = true;
    other.figure.zoomTo([wanted[0], wanted[1]]);
    this.following = false;
  }

  /** The figure that buttons and keys work on; the other one follows. */
  get leading() {
    return (this.sides.find(({ empty }) => !empty) ?? this.sides[0]).figure;
  }

  // Input -------------------------------------------------------------------------------------------------------------

  listen() {
    this.sides.forEach((side, at) => (side.figure.onMoved = () => this.follow(at)));
    const click = (/** @type {string} */ id, /** @type {() => void} */ run) => byId(id).addEventListener("click", run);
    click("fastest", () => this.pick(0));
    click("median", () => this.pick(0.5));
    click("slowest", () => this.pick(1));
    click("fit", () => this.leading.fit());
    click("zoom-in", () => this.leading.zoom(0.5));
    click("zoom-out", () => this.leading.zoom(2));
    byId("unit").addEventListener("change", () => this.render());
    byId("cta").addEventListener("change", () => {
      const { value } = byId("cta");
      if (value === "") return;
      const positions = this.sides.map(({ recording }) => recording.columns.cta_cta.indexOf(Number(value)));
      const missing = this.sides.filter((_, at) => positions[at] < 0).map(({ name }) => name);
      if (missing.length) byId("found").textContent = `not recorded ${missing.join(" and ")}`;
      else this.open(positions);
    });
    bind([
      { keys: ["ArrowLeft", "ArrowRight"], shown: "← →", does: "pan",
        run: (key) => this.leading.pan(key === "ArrowLeft" ? -0.2 : 0.2) },
      { keys: ["+", "="], shown: "+", does: "zoom in", run: () => this.leading.zoom(0.5) },
      { keys: ["-"], shown: "-", does: "zoom out", run: () => this.leading.zoom(2) },
      { keys: ["0"], shown: "0", does: "show all", run: () => this.leading.fit() },
    ]);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
    // Figures draw themselves anew in another width; how far right their names go is for both of them.
    let { clientWidth } = byId("timelines");
    new ResizeObserver(() => {
      if (byId("timelines").clientWidth === clientWidth) return;
      clientWidth = byId("timelines").clientWidth;
      this.render();
    }).observe(byId("timelines"));
  }
}

/**
 * What a legend of both sides is made of: their names and arrows, and their events one behind the other.
 * @param {Side[]} sides
 */
function both(sides) {
  const heads = sides.map(({ recording }) => recording.head);
  const keys = [...new Set(heads.flatMap(({ edges }) => edges.map((edge) => JSON.stringify(edge))))];
  const edgeOf = (/** @type {[string, string]} */ edge) => keys.indexOf(JSON.stringify(edge));
  /** @type {any} */
  const head = {
    ranges: heads.flatMap(({ ranges }) => ranges),
    marks: heads.flatMap(({ marks }) => marks),
    edges: keys.map((key) => JSON.parse(key)),
  };
  /** @type {any} */
  const events = { slices: { range: [] }, instants: { mark: [] }, flows: { edge: [] } };
  let [ranges, marks] = [0, 0];
  sides.forEach(({ events: { slices, instants, flows } }, at) => {
    const [firstRange, firstMark] = [ranges, marks];
    for (let i = 0; i < slices.count; i += 1) events.slices.range.push(firstRange + slices.range[i]);
    for (let i = 0; i < instants.count; i += 1) events.instants.mark.push(firstMark + instants.mark[i]);
    for (let i = 0; i < flows.count; i += 1) events.flows.edge.push(edgeOf(heads[at].edges[flows.edge[i]]));
    [ranges, marks] = [ranges + heads[at].ranges.length, marks + heads[at].marks.length];
  });
  events.slices.count = events.slices.range.length;
  events.instants.count = events.instants.mark.length;
  events.flows.count = events.flows.edge.length;
  return { head, events, edgeOf };
}

/** @param {number | null} change */
function signed(change) {
  if (change === null) return "–";
  return change < 0 ? percent(change).replace("-", "−") : `+${percent(change)}`;
}

try {
  const text = (/** @type {string} */ id) => byId(id).textContent;
  const [before, after] = await Promise.all(
    ["before", "after"].map((side) => unpack(JSON.parse(text(`${side}-head`)), text(`${side}-block`))),
  );
  const page = new Page(JSON.parse(text("comparison")), before, after);
  window.tileops = page;
  if (await loadLibrary()) page.render();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  byId("alerts").append(make("p", "alert bad", String(error)));
  throw error;
}
