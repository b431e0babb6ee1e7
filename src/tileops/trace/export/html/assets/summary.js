// The table beside a CTA's figure: what its ranges add up to, in all of the CTA or in the selected span.

import { integer, percent } from "./format.js";
import { colourOf } from "./palette.js";
import { byId, make, named } from "./elements.js";
import { sorted, totals } from "./totals.js";
import { bare, length } from "./units.js";

/** @typedef {import("./totals.js").Total} Total */
/** @typedef {import("./units.js").Unit} Unit */

/** @type {[keyof Total, string, string][]} title and class of each column that is a number */
const COLUMNS = [
  ["count", "Count", ""],
  ["total", "Total", "middling"],
  ["mean", "Mean", ""],
  ["p50", "p50", "wide"],
  ["p95", "p95", "wide"],
  ["max", "Max", "wide"],
  ["share", "Share of CTA", "share"],
];

export class Summary {
  constructor() {
    /** @type {keyof Total | null} null is the order of the rows */
    this.column = null;
    this.descending = true;
    /** @type {Total[]} */
    this.lines = [];
    this._fillHead();
  }

  /**
   * @param {import("./recording.js").Head} head
   * @param {import("./recording.js").Events} events
   * @param {number} cycles of the CTA
   * @param {[number, number] | null} selection
   * @param {Unit} unit
   */
  show(head, events, cycles, selection, unit) {
    this.unit = unit;
    this.lines = totals(head, events, cycles, selection);
    const where = selection
      ? `In the selected ${length(unit, selection[1] - selection[0])}. Count, total and share take the parts of ranges `
        + "that lie in it; mean, p50, p95 and max the ranges that lie in it from begin to end."
      : `In ${unit.key === "cycles" ? "SM cycles" : "nanoseconds"}. Select a span in the figure to have its totals here.`;
    byId("summary-note").textContent = `${where} Ranges that run at the same time, or inside each other, add up to more `
      + `than the ${selection ? "span" : "CTA"}.`;
    byId("summary-share").textContent = selection ? "Share of selection" : "Share of CTA";
    byId("summary").classList.toggle("selected", selection !== null);
    byId("summary").hidden = events.slices.count === 0;
    this._fill();
  }

  _fillHead() {
    /** @type {[keyof Total, string, string][]} */
    const columns = [["name", "Range", ""], ["lane", "Row", "wide"], ...COLUMNS];
    const cells = columns.map(([column, title, className], at) => {
      const button = make("button", "sort", title);
      button.type = "button";
      const cell = make("th", at < 2 ? className : `number ${className}`, button);
      cell.scope = "col";
      if (column === "share") button.id = "summary-share";
      cell.dataset.column = column;
      button.addEventListener("click", () => this._sort(column));
      return cell;
    });
    byId("summary-head").replaceChildren(...cells);
  }

  /** Numbers from the most, names from A; a third click gives the order of the rows back. @param {keyof Total} column */
  _sort(column) {
    const first = !["name", "lane"].includes(column);
    if (this.column !== column) [this.column, this.descending] = [column, first];
    else if (this.descending === first) this.descending = !first;
    else this.column = null;
    this._fill();
  }

  _fill() {
    const { column, descending } = this;
    for (const cell of byId("summary-head").children) {
      const chosen = cell.dataset.column === column;
      if (chosen) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    const lines = column ? sorted(this.lines, column, descending) : this.lines;
    byId("totals").replaceChildren(...lines.map((line) => this._row(line)));
  }

  /** @param {Total} line */
  _row(line) {
    const unit = /** @type {Unit} */ (this.unit);
    const swatch = make("span", "swatch");
    swatch.style.background = colourOf(line.name);
    const meter = make("span", "meter", make("span"));
    meter.firstChild.style.width = `${Math.min(100, 100 * (line.share || 0))}%`;
    meter.firstChild.style.background = colourOf(line.name);
    const count = make("td", "number", integer(line.count));
    if (line.cut) count.append(make("small", "", ` + ${integer(line.cut)} cut`));
    const text = (/** @type {number} */ value) => bare(unit, value);
    return make(
      "tr", "",
      make("th", "", swatch, named(line.name), make("span", "below", named(line.group), " / ", named(line.lane))),
      make("td", "where wide", named(line.group), " / ", named(line.lane)),
      count,
      make("td", "number middling", text(line.total)),
      make("td", "number", text(line.mean)),
      make("td", "number wide", text(line.p50)),
      make("td", "number wide", text(line.p95)),
      make("td", "number wide", text(line.max)),
      make("td", "number share", meter, make("span", "percent", percent(line.share))),
    );
  }
}
