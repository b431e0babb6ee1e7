// What a CTA's ranges add up to, in all of its time or in a selected span.

/** @typedef {import("./recording.js").Events} Events */
/** @typedef {import("./recording.js").Head} Head */

/**
 * @typedef {object} Total
 * @property {number} at of its lane among the figure's rows
 * @property {string} group
 * @property {string} lane
 * @property {string} name
 * @property {number} count of whole ranges that have a part in the span
 * @property {number} cut of ranges without an end that have one
 * @property {number} total cycles of these parts of whole ranges, NaN if there is none
 * @property {number} mean cycles of the whole ranges that lie in the span from begin to end, as are the next three
 * @property {number} p50
 * @property {number} p95
 * @property {number} max
 * @property {number} share `total` over the span
 */

/**
 * A line for each group, lane and name, in the order of the rows. Ranges that were cut are counted apart: how long they
 * took is not known.
 * @param {Head} head
 * @param {Events} events
 * @param {number} cycles of the CTA, NaN if not known
 * @param {[number, number] | null} selection a span; null is all of the CTA
 * @returns {Total[]}
 */
export function totals(head, events, cycles, selection) {
  const { count, range, start, duration, cut } = events.slices;
  const [from, to] = selection ?? [-Infinity, Infinity];
  const { lineOf, keys } = linesOf(head);
  const found = keys.map(() => ({ count: 0, cut: 0, total: 0, whole: /** @type {number[]} */ ([]) }));
  for (let i = 0; i < count; i += 1) {
    const [begin, end] = [start[i], start[i] + duration[i]];
    // A range of no length belongs to the span that it begins in.
    if (begin >= to || (end <= from && begin < from)) continue;
    const line = found[lineOf[range[i]]];
    if (cut[i]) {
      line.cut += 1;
      continue;
    }
    line.count += 1;
    line.total += Math.min(end, to) - Math.max(begin, from);
    if (begin >= from && end <= to) line.whole.push(duration[i]);
  }
  const span = selection ? to - from : cycles;
  return keys
    .map((key, at) => ({ ...key, ...found[at] }))
    .filter(({ count: whole, cut: torn }) => whole + torn > 0)
    .map(({ whole, ...line }) => {
      const sorted = Float64Array.from(whole).sort();
      const sum = sorted.reduce((one, other) => one + other, 0);
      return {
        ...line,
        total: line.count ? line.total : NaN,
        mean: sum / sorted.length,
        p50: percentile(sorted, 0.5),
        p95: percentile(sorted, 0.95),
        max: sorted.length ? sorted[sorted.length - 1] : NaN,
        share: span > 0 && line.count ? line.total / span : NaN,
      };
    });
}

/** The lines that a recording can have, in the order of the rows, and for each of its ranges the line. @param {Head} head */
function linesOf(head) {
  const order = head.ranges.map((_, code) => code).sort((a, b) => head.ranges[a][0] - head.ranges[b][0] || a - b);
  /** @type {Map<string, number>} */
  const known = new Map();
  /** @type {{at: number, group: string, lane: string, name: string}[]} */
  const keys = [];
  const lineOf = new Int32Array(head.ranges.length);
  for (const code of order) {
    const [at, name] = head.ranges[code];
    const key = `${at} ${name}`;
    let line = known.get(key);
    if (line === undefined) {
      line = keys.length;
      known.set(key, line);
      keys.push({ at, group: head.lanes[at][0], lane: head.lanes[at][1], name });
    }
    lineOf[code] = line;
  }
  return { lineOf, keys };
}

/**
 * Between the two values that stand around it, in proportion, as NumPy does by default.
 * @param {ArrayLike<number>} sorted ascending
 * @param {number} fraction 0.95 is the 95th percentile
 */
export function percentile(sorted, fraction) {
  if (!sorted.length) return NaN;
  const at = fraction * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/**
 * Lines in the order of a column; what is not known stands last, and equals stay in the order of the rows.
 * @param {Total[]} lines
 * @param {keyof Total} column
 * @param {boolean} descending
 */
export function sorted(lines, column, descending) {
  const sign = descending ? -1 : 1;
  return [...lines].sort((one, other) => {
    const [a, b] = [one[column], other[column]];
    // A row is shown as "group / lane".
    if (column === "lane" && one.group !== other.group) return sign * one.group.localeCompare(other.group);
    if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b));
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
    return sign * (a - b);
  });
}
