// Where things stand in a figure, and what lies under the pointer. Nothing here draws.

/** @typedef {import("./recording.js").Events} Events */

export const BAR = 22; // px: a label of 12 px stands in it with room above and below
const STEP = BAR + 2; // from a range to one nested in it
const PAD = 8; // above and below a row's bars
const GROUP_GAP = 8; // above a group's first row
const SNAP = 8; // px from an edge to what is set on it
const HEADING = 17; // for a row's name above its bars, in narrow windows

/**
 * @typedef {object} Row
 * @property {string} group
 * @property {string} lane
 * @property {boolean} first of its group
 * @property {number} top px from the plot's top
 * @property {number} height px
 * @property {number} bars px from the plot's top to its outermost bars
 */

/**
 * Rows from top to bottom, in pixels.
 * @param {[string, string, number][]} lanes group, lane and greatest depth of each
 * @param {boolean} headings whether names stand above their rows instead of beside them
 * @returns {{rows: Row[], height: number}}
 */
export function layOut(lanes, headings) {
  let top = 0;
  const rows = lanes.map(([group, lane, depth], at) => {
    const first = at === 0 || lanes[at - 1][0] !== group;
    if (first && at > 0) top += GROUP_GAP;
    const above = PAD + (headings ? HEADING : 0);
    const height = above + (depth + 1) * STEP - (STEP - BAR) + PAD;
    const row = { group, lane, first, top, height, bars: top + above };
    top += height;
    return row;
  });
  return { rows, height: top };
}

/**
 * A CTA's events with their places: `sliceTop` is each bar's upper edge, `markTop` each instant's row's upper edge,
 * `flowFrom` and `flowTo` an arrow's ends, all in px from the plot's top.
 */
export class Scene {
  /**
   * @param {any} head
   * @param {Events} events
   * @param {Row[]} rows
   * @param {{names: Set<string>, edges: Set<number>}} hidden
   */
  constructor(head, events, rows, hidden) {
    this.head = head;
    this.events = events;
    this.rows = rows;
    const { slices, instants, flows } = events;
    const rangeTop = head.ranges.map((/** @type {any} */ [lane, , depth]) => rows[lane].bars + depth * STEP);
    const rangeHidden = head.ranges.map((/** @type {any} */ [, name]) => hidden.names.has(name));
    this.sliceTop = Float64Array.from({ length: slices.count }, (_, i) => rangeTop[slices.range[i]]);
    this.markTop = Float64Array.from({ length: instants.count }, (_, i) => rows[head.marks[instants.mark[i]][0]].bars);
    this.slices = indices(slices.count, (i) => !rangeHidden[slices.range[i]]);
    this.instants = indices(instants.count, (i) => !hidden.names.has(head.marks[instants.mark[i]][1]));
    this.flows = indices(
      flows.count,
      (i) =>
        !hidden.edges.has(flows.edge[i]) &&
        !rangeHidden[slices.range[flows.src[i]]] &&
        !rangeHidden[slices.range[flows.dst[i]]],
    );
    // An arrow leaves and reaches its bars at the edges that face each other.
    this.flowFrom = new Float64Array(flows.count);
    this.flowTo = new Float64Array(flows.count);
    for (let i = 0; i < flows.count; i += 1) {
      const from = this.sliceTop[flows.src[i]];
      const to = this.sliceTop[flows.dst[i]];
      const [leave, reach] = from < to ? [BAR, 0] : from > to ? [0, BAR] : [BAR / 2, BAR / 2];
      this.flowFrom[i] = from + leave;
      this.flowTo[i] = to + reach;
    }
  }

  /** The last moment that anything in it knows of. */
  get end() {
    const { slices, instants, flows } = this.events;
    let end = 0;
    for (let i = 0; i < slices.count; i += 1) end = Math.max(end, slices.start[i] + slices.duration[i]);
    for (let i = 0; i < instants.count; i += 1) end = Math.max(end, instants.time[i]);
    for (let i = 0; i < flows.count; i += 1) end = Math.max(end, flows.end[i]);
    return end;
  }

  /** The first one: 0, or earlier where a group recorded before the CTA's begin. */
  get begin() {
    return Math.min(0, ...[this.events.slices.start, this.events.instants.time].map(least));
  }

  /**
   * What lies at a point: an instant, an arrow or a range, in this order where they are about as close.
   * @param {number} x px from the plot's left
   * @param {number} y px from the plot's top
   * @param {(cycles: number) => number} toPixels
   * @returns {{kind: "slice" | "instant" | "flow", index: number} | null}
   */
  pick(x, y, toPixels) {
    const instant = this._nearestInstant(x, y, toPixels);
    if (instant >= 0) return { kind: "instant", index: instant };
    const slice = this._sliceAt(x, y, toPixels);
    // Arrows cross the bars of rows between their ends: inside a bar only an arrow's ends count.
    const flow = this._nearestFlow(x, y, toPixels, slice >= 0);
    if (flow >= 0) return { kind: "flow", index: flow };
    return slice >= 0 ? { kind: "slice", index: slice } : null;
  }

  /** @param {number} x @param {number} y @param {(cycles: number) => number} toPixels */
  _sliceAt(x, y, toPixels) {
    const { start, duration } = this.events.slices;
    let best = -1;
    let distance = 2; // px beside a bar that still count: a bar of one pixel must be reachable
    for (const i of this.slices) {
      const above = y - this.sliceTop[i];
      if (above < 0 || above > BAR) continue;
      const left = toPixels(start[i]);
      const right = toPixels(start[i] + duration[i]);
      const away = x < left ? left - x : x > right ? x - right : 0;
      // Of bars that touch, the one that begins under the pointer.
      if (away < distance || (away === 0 && distance === 0)) {
        best = i;
        distance = away;
      }
    }
    return best;
  }

  /**
   * The begin or end of a range, or the instant, that is near a place: of the row there, or if that has none, of any.
   * @param {number} x px from the plot's left
   * @param {number} y px from the plot's top
   * @param {(cycles: number) => number} toPixels
   * @returns {number | null} in cycles
   */
  edgeNear(x, y, toPixels) {
    const { slices, instants } = this.events;
    let [best, distance] = [/** @type {number | null} */ (null), 0];
    for (const anywhere of [false, true]) {
      distance = SNAP;
      const look = (/** @type {number} */ cycles) => {
        const away = Math.abs(x - toPixels(cycles));
        if (away < distance) [best, distance] = [cycles, away];
      };
      for (const i of this.slices) {
        if (!anywhere && (y < this.sliceTop[i] || y > this.sliceTop[i] + BAR)) continue;
        look(slices.start[i]);
        look(slices.start[i] + slices.duration[i]);
      }
      for (const i of this.instants) {
        if (anywhere || Math.abs(y - this.markTop[i]) <= BAR) look(instants.time[i]);
      }
      if (best !== null) break;
    }
    return best;
  }

  /** @param {number} x @param {number} y @param {(cycles: number) => number} toPixels */
  _nearestInstant(x, y, toPixels) {
    let best = -1;
    let distance = 7;
    for (const i of this.instants) {
      if (Math.abs(y - (this.markTop[i] - 3)) > 6) continue;
      const away = Math.abs(x - toPixels(this.events.instants.time[i]));
      if (away < distance) {
        best = i;
        distance = away;
      }
    }
    return best;
  }

  /** @param {number} x @param {number} y @param {(cycles: number) => number} toPixels @param {boolean} endsOnly */
  _nearestFlow(x, y, toPixels, endsOnly) {
    const { start, end } = this.events.flows;
    let best = -1;
    let distance = endsOnly ? 5 : 4;
    for (const i of this.flows) {
      const [y0, y1] = [this.flowFrom[i], this.flowTo[i]];
      if (y < Math.min(y0, y1) - 5 || y > Math.max(y0, y1) + 5) continue;
      const x0 = toPixels(start[i]);
      const x1 = toPixels(end[i]);
      const away = endsOnly
        ? Math.min(Math.hypot(x - x0, y - y0), Math.hypot(x - x1, y - y1))
        : distanceToSegment(x, y, x0, y0, x1, y1);
      if (away < distance) {
        best = i;
        distance = away;
      }
    }
    return best;
  }

  /** The arrows that a range sends or receives. @param {number} slice */
  flowsOf(slice) {
    const { src, dst } = this.events.flows;
    return this.flows.filter((i) => src[i] === slice || dst[i] === slice);
  }
}

/** @param {number} count @param {(i: number) => boolean} wanted */
function indices(count, wanted) {
  const found = [];
  for (let i = 0; i < count; i += 1) if (wanted(i)) found.push(i);
  return found;
}

/** @param {ArrayLike<number>} values */
function least(values) {
  let smallest = Infinity;
  for (let i = 0; i < values.length; i += 1) smallest = Math.min(smallest, values[i]);
  return smallest;
}

/** @param {number} x @param {number} y @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
export function distanceToSegment(x, y, x0, y0, x1, y1) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const square = dx * dx + dy * dy;
  const along = square === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / square));
  return Math.hypot(x - x0 - along * dx, y - y0 - along * dy);
}

/**
 * A span inside its bounds and not narrower than `least`, moved rather than shrunk.
 * @param {[number, number]} span
 * @param {[number, number]} bounds
 * @param {number} narrowest
 * @returns {[number, number]}
 */
export function within([from, to], [low, high], narrowest) {
  const width = Math.min(Math.max(to - from, narrowest), high - low);
  const middle = (from + to) / 2;
  const left = Math.min(Math.max(middle - width / 2, low), high - width);
  return [left, left + width];
}
