// The page around the figure: header, tabs, legend, tooltip and table.

import { colourOf } from "./palette.js";
import { PAYLOAD_NONE, clock, counted, date, integer, nanoseconds, payload, percent, shown, time } from "./format.js";
import { unpack } from "./recording.js";
import { summarize } from "./model.js";
import { coordinates, matching } from "./filter.js";
import { byId, fillAlerts, fillFacts, make, named } from "./elements.js";
import { Figure } from "./figure.js";
import { GpuPanel } from "./gpu.js";

/** @typedef {import("./recording.js").Recording} Recording */

const SOME = 8; // names of a list before "and n more"

class Page {
  /** @param {Recording} recording */
  constructor(recording) {
    this.recording = recording;
    this.head = recording.head;
    this.position = -1;
    this.hidden = { names: new Set(), edges: new Set() };
    /** @type {number[]} */
    this.listed = [];
    /** @type {GpuPanel | null} */
    this.gpu = null;
    this.figure = new Figure(byId("figure"), this.head, (hit, event) => this.tell(hit, event));
    this.fillHeader();
    this.fillTabs();
    this.listen();
    if (recording.count) {
      const finished = recording.columns.cta_finished.indexOf(1);
      this.open(Math.max(0, finished));
    } else {
      byId("picker").hidden = true;
      byId("panel").hidden = true;
      byId("alerts").append(make("p", "alert", "This recording holds no CTA."));
    }
    document.documentElement.dataset.ready = "true";
  }

  // Header ------------------------------------------------------------------------------------------------------------

  fillHeader() {
    const { head, recording } = this;
    const meta = head.meta;
    document.title = shown(head.title);
    byId("title").textContent = shown(head.title);
    const kernel = String(meta.kernel ?? "");
    const grid = head.grid.join(" × ");
    const launch = [
      kernel && kernel !== head.title ? kernel : "",
      meta.device,
      meta.target && `target ${meta.target}`,
      `grid ${grid}`,
      meta.date && date(String(meta.date)),
    ].filter((part) => part !== undefined && part !== null && part !== "" && part !== false);
    byId("launch").replaceChildren(...launch.map((part) => make("span", "", shown(String(part)))));
    byId("told").replaceChildren(...head.told.map((/** @type {string} */ part) => make("span", "", shown(part))));
    const dropped = recording.total("dropped");
    const unfinished = recording.count - recording.total("finished");
    fillFacts(byId("facts"), [
      ["CTAs", integer(recording.count)],
      ["Events", integer(recording.total("recorded"))],
      ["Dropped", integer(dropped), dropped ? "bad" : ""],
      ["Unfinished", integer(unfinished), unfinished ? "bad" : ""],
      ["Axis error", head.axisError === null ? "unknown" : `± ${time(head.axisError)}`],
    ]);
    this.fillAlerts(dropped, unfinished);
    const versions = meta.versions && typeof meta.versions === "object" ? Object.entries(meta.versions) : [];
    const known = Object.entries(meta).filter(([key]) => key !== "versions");
    const rows = [...known, ["grid", grid], ...versions.map(([name, version]) => [`${name} version`, version])];
    if (meta.versions && !versions.length) rows.push(["versions", meta.versions]);
    byId("meta").replaceChildren(
      ...rows.flatMap(([key, value]) => [
        make("dt", "", shown(String(key))),
        make("dd", "", shown(typeof value === "object" ? JSON.stringify(value) : String(value))),
      ]),
    );
    const made = versions.map(([name, version]) => `${name} ${version}`).join(" · ");
    byId("details").after(make("p", "versions", shown(made)));
  }

  /** @param {number} dropped @param {number} unfinished */
  fillAlerts(dropped, unfinished) {
    const { head, recording } = this;
    const { row_recorded: recorded, row_dropped: lost, cta_finished: finished } = recording.columns;
    /** @type {[string, string, (string | Node)[]?][]} */
    const alerts = [];
    if (dropped) {
      let most = 0;
      for (let i = 0; i < recorded.length; i += 1) most = Math.max(most, recorded[i] + lost[i]);
      const held = most ? ` max_events=${most} would have held them all.` : "";
      const text = `${counted(dropped, "event")} dropped, since rows were full: ranges are cut or missing.${held}`;
      alerts.push(["bad", text]);
    }
    if (unfinished) {
      const positions = [...finished.keys()].filter((position) => !finished[position]);
      const names = positions.slice(0, SOME).map((position) => this.nameOf(position));
      const more = positions.length > SOME ? ` and ${integer(positions.length - SOME)} more` : "";
      const text = `${counted(unfinished, "CTA")} did not finish and cannot be trusted: ${names.join(", ")}${more}.`;
      alerts.push(["bad", text]);
    }
    if (head.neverFired.length) {
      const text = `${counted(head.neverFired.length, "marker")} never fired in this launch`;
      alerts.push(["warn", text, head.neverFired.map(shown)]);
    }
    fillAlerts(byId("alerts"), alerts);
  }

  // Tabs --------------------------------------------------------------------------------------------------------------

  /** @param {number} position */
  nameOf(position) {
    const { number, block } = this.recording.cta(position);
    return `${coordinates(block, this.head.grid)} #${number}`;
  }

  fillTabs() {
    const { recording } = this;
    this.tabs = Array.from({ length: recording.count }, (_, position) => {
      const { number, block, dropped, finished } = recording.cta(position);
      const tab = make("button", "tab", make("span", "block", coordinates(block, this.head.grid)), " ");
      tab.append(make("span", "linear", `#${number}`));
      tab.type = "button";
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", "false");
      tab.tabIndex = -1;
      tab.setAttribute("aria-controls", "panel");
      tab.dataset.position = String(position);
      if (!finished) tab.classList.add("unfinished");
      if (dropped) tab.classList.add("dropped");
      if (!finished) tab.title = "did not finish";
      else if (dropped) tab.title = `${counted(dropped, "event")} dropped`;
      return tab;
    });
    byId("tabs").append(...this.tabs);
    this.list(null);
  }

  /** Shows the tabs of these CTAs alone. @param {number[] | null} positions */
  list(positions) {
    const tabs = /** @type {any[]} */ (this.tabs);
    const { count } = this.recording;
    this.listed = positions || tabs.map((_, position) => position);
    if (positions) {
      const wanted = new Set(positions);
      tabs.forEach((tab, position) => (tab.hidden = !wanted.has(position)));
    } else {
      tabs.forEach((tab) => (tab.hidden = false));
    }
    byId("found").textContent = positions ? `${integer(positions.length)} of ${integer(count)}` : counted(count, "CTA");
    byId("picker").classList.toggle("none", positions !== null && positions.length === 0);
    this.fade();
  }

  /** Fades the strip's edges where it goes on behind them. */
  fade() {
    const { scrollLeft, clientWidth, scrollWidth, classList } = byId("tabs");
    classList.toggle("more-left", scrollLeft > 1);
    classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 1);
  }

  /** @param {number} position */
  open(position) {
    const tabs = /** @type {any[]} */ (this.tabs);
    if (this.position >= 0) {
      tabs[this.position].setAttribute("aria-selected", "false");
      tabs[this.position].tabIndex = -1;
    }
    this.position = position;
    tabs[position].setAttribute("aria-selected", "true");
    tabs[position].tabIndex = 0;
    this.show("cta");
    this.reveal(tabs[position]);
    this.showCta();
  }

  /** Shows the panel of the whole launch or that of one CTA. @param {"gpu" | "cta"} view */
  show(view) {
    const gpu = view === "gpu";
    byId("gpu").setAttribute("aria-selected", String(gpu));
    /** @type {any[]} */ (this.tabs)[this.position].setAttribute("aria-selected", String(!gpu));
    byId("gpu-panel").hidden = !gpu;
    byId("panel").hidden = gpu;
    this.float("", null, () => []);
  }

  openGpu() {
    this.show("gpu");
    // Most of whom open a page look at a CTA or two: what the map needs is made when it is asked for.
    this.gpu ??= new GpuPanel(
      this.recording,
      (position) => this.nameOf(position),
      (key, point, content) => this.float(key, point, content),
      (position) => this.openFromGpu(position),
    );
    this.gpu.show(this.position);
  }

  /** Opens a CTA from the map, whatever the filter lists, and focuses its tab. @param {number} position */
  openFromGpu(position) {
    if (!this.listed.includes(position)) this.unfilter();
    this.open(position);
    /** @type {any[]} */ (this.tabs)[position].focus({ preventScroll: true });
  }

  unfilter() {
    byId("filter").value = "";
    this.list(null);
  }

  /** Scrolls the strip, and nothing but the strip, until a tab is well inside it. @param {HTMLElement} tab */
  reveal(tab) {
    const strip = byId("tabs");
    const from = tab.offsetLeft - strip.offsetLeft;
    const margin = Math.min(60, strip.clientWidth / 4);
    if (from - margin < strip.scrollLeft) strip.scrollLeft = from - margin;
    else if (from + tab.offsetWidth + margin > strip.scrollLeft + strip.clientWidth) {
      strip.scrollLeft = from + tab.offsetWidth + margin - strip.clientWidth;
    }
  }

  /** Opens the tab that is so many steps along the listed ones. @param {number} steps */
  step(steps) {
    const { listed } = this;
    if (!listed.length) return;
    const at = listed.indexOf(this.position);
    const next = at < 0 ? 0 : Math.min(Math.max(at + steps, 0), listed.length - 1);
    if (listed[next] !== this.position) this.open(listed[next]);
  }

  // One CTA -----------------------------------------------------------------------------------------------------------

  showCta() {
    const { head, recording } = this;
    const cta = recording.cta(this.position);
    this.cta = cta;
    this.events = recording.events(this.position);
    byId("panel").setAttribute("aria-label", `CTA ${this.nameOf(this.position)}`);
    byId("cta").replaceChildren("CTA ", coordinates(cta.block, head.grid), " ", make("small", "", `#${cta.number}`));
    const facts = [
      ["SM", cta.sm >= 0 ? integer(cta.sm) : "unknown"],
      ["Cycles", integer(cta.cycles)],
      ["Time", time(cta.endNs - cta.beginNs)],
      ["Begins at", Number.isFinite(cta.beginNs) ? `+${time(cta.beginNs)}` : time(NaN)],
      ["Clock, measured", clock(cta.ghz)],
      ["Events", integer(cta.recorded)],
    ];
    if (cta.dropped) facts.push(["Dropped", integer(cta.dropped), "bad"]);
    fillFacts(byId("cta-facts"), /** @type {any} */ (facts));
    const alerts = [];
    if (!cta.finished) {
      alerts.push(["bad", "This CTA did not finish: what is shown of it, if anything, is not all that it did."]);
    }
    for (const row of this.events.rows) {
      if (row.dropped) {
        const lost = counted(row.dropped, "event");
        const which = head.meta.keep === "last" ? "ahead of the last" : "after the first";
        alerts.push(["bad", `${shown(row.group)}: ${lost} dropped ${which} ${integer(row.recorded)}.`]);
      }
    }
    const cut = this.events.slices.cut.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
    if (cut) {
      alerts.push(["warn", `${counted(cut, "range")} cut: hatched, with a torn end, since no end was recorded.`]);
    }
    fillAlerts(byId("cta-alerts"), /** @type {any} */ (alerts));
    byId("rate").textContent = Number.isFinite(cta.ghz)
      ? `Here 1,000 cycles take ${nanoseconds(1000 / cta.ghz)} ns.`
      : "How long a cycle took is not known here.";
    const { slices, instants } = this.events;
    const empty = slices.count + instants.count === 0;
    byId("nothing").hidden = !empty;
    byId("nothing").textContent = cta.finished
      ? "This CTA recorded no range and no instant."
      : "Nothing is known of this CTA, since it did not finish.";
    byId("timeline").classList.toggle("empty", empty);
    this.fillLegend();
    this.fillTotals();
    this.figure.show(this.events, cta.cycles, this.hidden);
  }

  fillLegend() {
    const { head, hidden, events } = this;
    const { slices, instants, flows } = events;
    /** @type {Map<string, number>} */
    const names = new Map();
    const lanes = new Map();
    const add = (/** @type {string} */ name, /** @type {number} */ lane) => {
      names.set(name, (names.get(name) || 0) + 1);
      lanes.set(name, Math.min(lane, lanes.get(name) ?? lane));
    };
    for (let i = 0; i < slices.count; i += 1) add(head.ranges[slices.range[i]][1], head.ranges[slices.range[i]][0]);
    for (let i = 0; i < instants.count; i += 1) add(head.marks[instants.mark[i]][1], head.marks[instants.mark[i]][0]);
    const chips = [...names].sort((a, b) => lanes.get(a[0]) - lanes.get(b[0])).map(([name, count]) => {
      const swatch = make("span", "swatch");
      swatch.style.background = colourOf(name);
      return this.chip(hidden.names, name, names.keys(), [swatch, named(name), make("span", "count", integer(count))]);
    });
    /** @type {Map<number, number>} */
    const edges = new Map();
    for (let i = 0; i < flows.count; i += 1) edges.set(flows.edge[i], (edges.get(flows.edge[i]) || 0) + 1);
    for (const [edge, count] of [...edges].sort((a, b) => a[0] - b[0])) {
      const [src, dst] = head.edges[edge];
      const content = [named(src), make("span", "arrow", "→"), named(dst), make("span", "count", integer(count))];
      const chip = this.chip(hidden.edges, edge, edges.keys(), content);
      chip.classList.add("edge");
      chips.push(chip);
    }
    byId("legend").replaceChildren(...chips);
  }

  /**
   * A part of the legend. A click hides or shows; with Shift, everything of its kind but this.
   * @param {Set<any>} hidden @param {any} key @param {Iterable<any>} all @param {Node[]} content
   */
  chip(hidden, key, all, content) {
    const others = [...all].filter((other) => other !== key);
    const chip = make("button", "chip", ...content);
    chip.type = "button";
    chip.setAttribute("aria-pressed", String(!hidden.has(key)));
    chip.title = "Click to hide or show, Shift-click to show this one alone";
    chip.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (event.shiftKey) {
        const alone = !hidden.has(key) && others.every((other) => hidden.has(other));
        hidden.delete(key);
        others.forEach((other) => (alone ? hidden.delete(other) : hidden.add(other)));
      } else if (!hidden.delete(key)) {
        hidden.add(key);
      }
      this.fillLegend();
      this.figure.render();
    });
    return chip;
  }

  fillTotals() {
    const { head, cta } = this;
    const lines = summarize(head, this.events).map((line) => {
      const share = cta.cycles > 0 && line.count ? line.total / cta.cycles : NaN;
      const swatch = make("span", "swatch");
      swatch.style.background = colourOf(line.name);
      const meter = make("span", "meter", make("span"));
      meter.firstChild.style.width = `${Math.min(100, 100 * (share || 0))}%`;
      meter.firstChild.style.background = colourOf(line.name);
      const whole = (/** @type {number} */ value) => (line.count ? integer(value) : integer(NaN));
      const count = make("td", "number", integer(line.count));
      if (line.cut) count.append(make("small", "", ` + ${integer(line.cut)} cut`));
      return make(
        "tr", "",
        make("th", "", swatch, named(line.name), make("span", "below", named(line.group), " / ", named(line.lane))),
        make("td", "where wide", named(line.group), " / ", named(line.lane)),
        count,
        make("td", "number", whole(line.total / line.count)),
        make("td", "number wide", whole(line.least)),
        make("td", "number wide", whole(line.greatest)),
        make("td", "number middling", whole(line.total)),
        make("td", "number share", meter, make("span", "percent", percent(share))),
      );
    });
    byId("totals").replaceChildren(...lines);
    byId("summary").hidden = lines.length === 0;
  }

  // Tooltip -----------------------------------------------------------------------------------------------------------

  /** @param {import("./figure.js").Hit | null} hit @param {PointerEvent | null} event */
  tell(hit, event) {
    const point = event && { x: event.clientX, y: event.clientY };
    const key = hit ? `${this.position} ${hit.kind} ${hit.index}` : "";
    this.float(key, hit && point, () => (hit ? this.described(hit) : []));
  }

  /**
   * Shows the tooltip beside a point of the screen, or hides it.
   * @param {string} key of its content, which is made anew only if this changes
   * @param {{x: number, y: number} | null} point
   * @param {() => Node[]} content
   */
  float(key, point, content) {
    const tooltip = byId("tooltip");
    tooltip.hidden = point === null;
    if (!point) return;
    if (tooltip.dataset.key !== key) {
      tooltip.dataset.key = key;
      tooltip.replaceChildren(...content());
    }
    const box = tooltip.getBoundingClientRect();
    const gap = 14;
    const right = point.x + gap + box.width <= window.innerWidth - 4;
    const below = point.y + gap + box.height <= window.innerHeight - 4;
    const left = right ? point.x + gap : Math.max(4, point.x - gap - box.width);
    const top = below ? point.y + gap : Math.max(4, point.y - gap - box.height);
    tooltip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  /** @param {import("./figure.js").Hit} hit @returns {Node[]} */
  described({ kind, index }) {
    const { head, events } = this;
    const { slices, instants, flows } = events;
    if (kind === "flow") {
      const [src, dst] = head.edges[flows.edge[index]];
      const [start, end] = [flows.start[index], flows.end[index]];
      const ends = [flows.src[index], flows.dst[index]].map((slice) => head.ranges[slices.range[slice]][0]);
      return [
        make("p", "what", named(src), " → ", named(dst), make("small", "", ` #${integer(flows.occurrence[index])}`)),
        make("p", "where", ...this.laneOf(ends[0]), " → ", ...this.laneOf(ends[1])),
        this.times([["hand-off", end - start, false], ["leaves", start, true], ["arrives", end, true]]),
      ];
    }
    const [lane, name] = kind === "slice" ? head.ranges[slices.range[index]] : head.marks[instants.mark[index]];
    const swatch = make("span", "swatch");
    swatch.style.background = colourOf(name);
    const parts = [make("p", "what", swatch, named(name)), make("p", "where", ...this.laneOf(lane))];
    const from = kind === "slice" ? slices : instants;
    if (kind === "slice") {
      const [start, duration] = [slices.start[index], slices.duration[index]];
      parts.push(this.times([["start", start, true], ["end", start + duration, true], ["duration", duration, false]]));
    } else {
      parts.push(this.times([["at", instants.time[index], true]]));
    }
    const payloadKind = from.kind[index] ?? PAYLOAD_NONE;
    if (payloadKind !== PAYLOAD_NONE) {
      parts.push(make("p", "payload", "payload ", make("b", "", payload(from.payload[index], payloadKind))));
    }
    if (kind === "slice" && slices.cut[index]) {
      parts.push(make("p", "cut", "Cut: its end was not recorded, it lasted at least this long."));
    }
    return parts;
  }

  /** @param {number} lane @returns {(Node | string)[]} */
  laneOf(lane) {
    const [group, name] = this.head.lanes[lane];
    return [named(group), " / ", named(name)];
  }

  /**
   * Moments and spans in cycles and nanoseconds; moments also on the axis that all CTAs of the launch share.
   * @param {[string, number, boolean][]} lines title, cycles, and whether it is a moment
   */
  times(lines) {
    const { ghz, beginNs } = this.cta;
    const table = make("table");
    const heads = ["", "cycles", "ns", "ns, launch"].map((text) => make("th", "", text));
    table.append(make("tr", "", ...heads));
    for (const [title, cycles, moment] of lines) {
      const ns = cycles / ghz;
      const cells = [integer(cycles), nanoseconds(ns), moment ? nanoseconds(beginNs + ns) : ""];
      table.append(make("tr", "", make("th", "", title), ...cells.map((text) => make("td", "", text))));
    }
    return table;
  }

  // Input -------------------------------------------------------------------------------------------------------------

  listen() {
    const { columns } = this.recording;
    const filter = byId("filter");
    const blocks = [columns.cta_x, columns.cta_y, columns.cta_z];
    filter.addEventListener("input", () => this.list(matching(filter.value, columns.cta_cta, blocks)));
    filter.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && this.listed.length) this.open(this.listed[0]);
      if (event.key === "Escape") this.unfilter();
    });
    byId("tabs").addEventListener("click", (/** @type {any} */ event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.open(Number(tab.dataset.position));
    });
    byId("tabs").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const { length } = this.listed;
      const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -length, End: length }[event.key];
      if (!steps) return;
      event.preventDefault();
      this.step(steps);
      /** @type {any[]} */ (this.tabs)[this.position].focus({ preventScroll: true });
    });
    byId("tabs").addEventListener(
      "wheel",
      (/** @type {WheelEvent} */ event) => {
        if (Math.abs(event.deltaX) >= Math.abs(event.deltaY)) return;
        event.preventDefault();
        byId("tabs").scrollLeft += event.deltaY;
      },
      { passive: false },
    );
    byId("tabs").addEventListener("scroll", () => this.fade());
    new ResizeObserver(() => this.fade()).observe(byId("tabs"));
    byId("previous").addEventListener("click", () => this.step(-1));
    byId("next").addEventListener("click", () => this.step(1));
    byId("gpu").addEventListener("click", () => this.openGpu());
    document.addEventListener("keydown", (event) => this.key(event));
    byId("fit").addEventListener("click", () => this.figure.fit());
    byId("zoom-in").addEventListener("click", () => this.figure.zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.figure.zoom(2));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.figure.render();
      this.gpu?.retheme();
    });
  }

  /** "g" goes to the GPU map and back. @param {KeyboardEvent} event */
  key(event) {
    const { target, key } = event;
    const typing = target instanceof Element && target.closest("input, select, textarea, [contenteditable]");
    if (key !== "g" || event.altKey || event.ctrlKey || event.metaKey || typing || this.position < 0) return;
    if (byId("panel").hidden) {
      this.openFromGpu(this.position);
      return;
    }
    this.openGpu();
    byId("map").focus({ preventScroll: true });
  }
}

try {
  const recording = await unpack(JSON.parse(byId("head").textContent), byId("block").textContent);
  window.tileops = new Page(recording);
} catch (error) {
  const old = typeof DecompressionStream === "undefined";
  const text = old ? "This browser is too old for this page: it needs DecompressionStream (2023)." : String(error);
  byId("alerts").append(make("p", "alert bad", text));
  throw error;
}
