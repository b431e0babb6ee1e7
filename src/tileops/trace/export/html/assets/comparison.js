// The page of a comparison: a CTA of each launch, under one another on one axis, and what changed.

import { clock, date, integer, percent, shown, time } from "./format.js";
import { colourOf } from "./palette.js";
import { unpack } from "./recording.js";
import { coordinates, ranked } from "./filter.js";
import { byId, fillAlerts, fillFacts, make, named } from "./elements.js";
import { UNITS, unitOf } from "./units.js";
import { described, float } from "./tooltip.js";
import { fillLegend } from "./legend.js";
import { bind } from "./keys.js";
import { loadLibrary } from "./library.js";
import { Figure } from "./figure.js";

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

  /** @param {string} unit @param {number} reach @param {number} left */
  show(unit, reach, left) {
    this.figure.reach = reach;
    this.figure.leastLeft = left;
    this.figure.show(this.events, this.cta.cycles, this.hidden, unitOf(unit, this.cta));
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
    /** @type {Set<string>} */
    const hidden = new Set();
    this.sides = [new Side("before", before, hidden), new Side("after", after, hidden)];
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

  fillLegend() {
    // Names are alike on both sides where it is the same kernel; the side that has more of them tells.
    const [side] = [...this.sides].sort((a, b) => b.recording.head.ranges.length - a.recording.head.ranges.length);
    fillLegend(side.recording.head, side.events, side.hidden, () => {
      this.fillLegend();
      this.render();
    });
  }

  /** Both figures on one axis: as long as the longer one, and as far right as the wider names. */
  render() {
    const unit = byId("unit").value;
    const reach = Math.max(...this.sides.map(({ cta }) => (cta.finished ? cta.cycles : 0)));
    this.following = true;
    this.sides.forEach((side) => side.show(unit, reach, 0));
    const left = Math.max(...this.sides.map(({ figure }) => figure.left));
    this.sides.forEach((side) => side.show(unit, reach, left));
    this.following = false;
  }

  /** Has the other figure show what this one does. @param {number} at */
  follow(at) {
    if (this.following) return;
    const [figure, other] = [this.sides[at].figure, this.sides[1 - at].figure];
    if (String(figure.range) === String(other.range)) return;
    this.following = true;
    other.zoomTo(figure.span);
    this.following = false;
  }

  // Input -------------------------------------------------------------------------------------------------------------

  listen() {
    const [{ figure }] = this.sides;
    this.sides.forEach((side, at) => (side.figure.onMoved = () => this.follow(at)));
    const click = (/** @type {string} */ id, /** @type {() => void} */ run) => byId(id).addEventListener("click", run);
    click("fastest", () => this.pick(0));
    click("median", () => this.pick(0.5));
    click("slowest", () => this.pick(1));
    click("fit", () => figure.fit());
    click("zoom-in", () => figure.zoom(0.5));
    click("zoom-out", () => figure.zoom(2));
    byId("unit").addEventListener("change", () => this.render());
    byId("cta").addEventListener("change", () => {
      const { value } = byId("cta");
      const positions = this.sides.map(({ recording }) => recording.columns.cta_cta.indexOf(Number(value)));
      const missing = this.sides.filter((_, at) => positions[at] < 0).map(({ name }) => name);
      if (value === "" || missing.length) byId("found").textContent = `not recorded ${missing.join(" and ")}`;
      else this.open(positions);
    });
    bind([
      { keys: ["ArrowLeft", "ArrowRight"], shown: "← →", does: "pan",
        run: (key) => figure.pan(key === "ArrowLeft" ? -0.2 : 0.2) },
      { keys: ["+", "="], shown: "+", does: "zoom in", run: () => figure.zoom(0.5) },
      { keys: ["-"], shown: "-", does: "zoom out", run: () => figure.zoom(2) },
      { keys: ["0"], shown: "0", does: "show all", run: () => figure.fit() },
    ]);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
  }
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
