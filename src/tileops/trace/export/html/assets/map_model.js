// Where the CTAs of a launch stand in the GPU map, what lies under the pointer, and what colours tell. Nothing here
// draws.

const MOST_SMS = 1024; // above such a number, SMs between those seen are taken for numbers that no GPU has
const GAP = 1; // px between SMs
const ROOMY = 8; // px: from this bar on, SMs stand further apart and an SM's bars do not touch
const TALLEST = 22; // px of a bar
const THIN = 3; // px: a bar that is thinner may exceed the room
const ENOUGH = 1.4; // of the room
const CHIP = 9; // px of a CTA without a time
const MANY = 1000; // CTAs without a time: above, they stand closer
const FENCE = 3; // interquartile ranges

/**
 * @typedef {object} SmRow
 * @property {number} sm -1 where it is not known
 * @property {number[]} ctas positions, by begin
 * @property {number} line the first of its lines
 * @property {number} lines how many of its CTAs run at the same time at most; 1 for an idle SM
 */

/**
 * @typedef {object} Places
 * @property {SmRow[]} rows by SM's number, those without a CTA too; the SM that is not known comes last
 * @property {number[][]} lines each line's CTAs, by begin: none begins before the one ahead of it ended
 * @property {Int32Array} row each CTA's row; -1 without a time
 * @property {Int32Array} line each CTA's line; -1 without a time
 * @property {number[]} timeless positions of the CTAs that no time is known of
 * @property {number} from first begin, in nanoseconds; NaN where no CTA's time is known
 * @property {number} to last end
 * @property {number} seen SMs that ran a CTA
 * @property {number} busy share of these SMs' time in which they held a CTA; NaN if nothing is known
 */

/**
 * Sorts CTAs into the rows of their SMs, and those that ran on one SM at the same time into lines below each other.
 * @param {Record<string, ArrayLike<number>>} columns of the recording
 * @param {number | null} axisError nanoseconds by which one CTA may seem to begin before its predecessor's end
 * @returns {Places}
 */
export function place(columns, axisError) {
  const { cta_sm: sms, cta_begin_ns: begin, cta_end_ns: end } = columns;
  const count = sms.length;
  /** @type {Map<number, number[]>} */
  const bySm = new Map();
  const timeless = [];
  let [from, to] = [Infinity, -Infinity];
  for (let i = 0; i < count; i += 1) {
    if (!Number.isFinite(begin[i]) || !Number.isFinite(end[i])) {
      timeless.push(i);
      continue;
    }
    from = Math.min(from, begin[i]);
    to = Math.max(to, end[i]);
    const sm = Math.max(sms[i], -1);
    const known = bySm.get(sm);
    if (known) known.push(i);
    else bySm.set(sm, [i]);
  }
  const numbers = [...bySm.keys()].filter((sm) => sm >= 0).sort((a, b) => a - b);
  const greatest = numbers.length ? numbers[numbers.length - 1] : -1;
  const named = greatest < MOST_SMS ? Array.from({ length: greatest + 1 }, (_, sm) => sm) : numbers;
  /** @type {SmRow[]} */
  const rows = [];
  /** @type {number[][]} */
  const lines = [];
  const row = new Int32Array(count).fill(-1);
  const line = new Int32Array(count).fill(-1);
  let held = 0;
  for (const sm of bySm.has(-1) ? [...named, -1] : named) {
    const ctas = (bySm.get(sm) || []).sort((a, b) => begin[a] - begin[b] || a - b);
    const first = lines.length;
    let until = -Infinity;
    for (const i of ctas) {
      // Within the axis's error, one CTA behind the other is what is likely.
      const slack = Math.min(axisError || 0, (end[i] - begin[i]) / 2);
      let at = first;
      while (at < lines.length && end[lines[at][lines[at].length - 1]] > begin[i] + slack) at += 1;
      if (at === lines.length) lines.push([]);
      lines[at].push(i);
      row[i] = rows.length;
      line[i] = at;
      if (sm >= 0) held += Math.max(0, end[i] - Math.max(begin[i], until));
      until = Math.max(until, end[i]);
    }
    if (lines.length === first) lines.push([]);
    rows.push({ sm, ctas, line: first, lines: lines.length - first });
  }
  const whole = numbers.length * (to - from);
  const busy = whole > 0 ? held / whole : NaN;
  if (!(from <= to)) [from, to] = [NaN, NaN];
  return { rows, lines, row, line, timeless, from, to, seen: numbers.length, busy };
}

/**
 * @typedef {object} Measures
 * @property {number} bar px, of each bar's height
 * @property {number[]} rowTop px from the plot's top
 * @property {number[]} rowHeight px
 * @property {number[]} lineTop px from the plot's top
 * @property {{top: number, pitch: number, columns: number, size: number}} strip of the CTAs without a time
 * @property {number} height px of it all
 */

/**
 * Gives each line a height: the greatest with which all SMs fit into `room`, or nearly so where bars are thin, and one
 * pixel at least.
 * @param {Places} places
 * @param {number} room px
 * @param {number} width px of the plot
 * @returns {Measures}
 */
export function measure({ rows, lines, timeless }, room, width) {
  const apart = (/** @type {number} */ bar) => (bar < ROOMY ? [GAP, 0] : [GAP + 3, 1]);
  const needed = (/** @type {number} */ bar) => {
    const [between, inside] = apart(bar);
    return lines.length * bar + rows.length * between + (lines.length - rows.length) * inside;
  };
  let bar = TALLEST;
  while (bar > 1 && needed(bar) > room) bar -= 1;
  while (bar < THIN && needed(bar + 1) <= ENOUGH * room) bar += 1;
  const [between, inside] = apart(bar);
  /** @type {number[]} */
  const rowTop = [];
  /** @type {number[]} */
  const rowHeight = [];
  /** @type {number[]} */
  const lineTop = [];
  let top = 0;
  for (const row of rows) {
    const height = row.lines * bar + (row.lines - 1) * inside;
    rowTop.push(top);
    rowHeight.push(height);
    for (let i = 0; i < row.lines; i += 1) lineTop.push(top + i * (bar + inside));
    top += height + between;
  }
  const size = timeless.length > MANY ? 3 : CHIP;
  const pitch = size + (timeless.length > MANY ? 1 : 3);
  const columns = Math.max(1, Math.floor(width / pitch));
  const strip = { top: top + (timeless.length ? 8 : 0), pitch, columns, size };
  const height = timeless.length ? strip.top + Math.ceil(timeless.length / columns) * pitch : top;
  return { bar, rowTop, rowHeight, lineTop, strip, height };
}

/**
 * The CTA at a point, or -1.
 * @param {Places} places
 * @param {Measures} measures
 * @param {Record<string, ArrayLike<number>>} columns
 * @param {number} x px from the plot's left
 * @param {number} y px from the plot's top
 * @param {(ns: number) => number} toPixels
 */
export function pick(places, measures, columns, x, y, toPixels) {
  const { lines, timeless } = places;
  const { bar, lineTop, strip } = measures;
  if (timeless.length && y >= strip.top - 2) {
    const column = Math.floor(x / strip.pitch);
    const at = Math.floor((y - strip.top) / strip.pitch) * strip.columns + column;
    return x >= 0 && column < strip.columns && at >= 0 && at < timeless.length ? timeless[at] : -1;
  }
  const at = Math.max(0, lastAtMost(lineTop, y));
  // What lies between two lines belongs to neither, but where they are thin the nearer one is meant.
  const beside = bar < ROOMY ? 1 : 0;
  if (!lines.length || y < lineTop[at] - beside || y > lineTop[at] + bar + beside) return -1;
  const { cta_begin_ns: begin, cta_end_ns: end } = columns;
  let best = -1;
  let distance = 2; // px beside a bar that still count: a bar of one pixel must be reachable
  // The one that begins last before x, and its neighbours: bars are never further off than these.
  const line = lines[at];
  const near = lastAtMost({ length: line.length, at: (i) => toPixels(begin[line[i]]) }, x);
  for (let i = Math.max(0, near - 1); i <= Math.min(near + 1, line.length - 1); i += 1) {
    const [left, right] = [toPixels(begin[line[i]]), toPixels(end[line[i]])];
    const away = x < left ? left - x : x > right ? x - right : 0;
    if (away < distance || (away === 0 && distance === 0)) {
      best = line[i];
      distance = away;
    }
  }
  return best;
}

/**
 * The last index whose value is at most `limit`; -1 if there is none. Values ascend.
 * @param {number[] | {length: number, at: (i: number) => number}} values
 * @param {number} limit
 */
function lastAtMost(values, limit) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Number(values.at(middle)) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Where a key leads from a CTA: left and right along its SM, up and down to the nearest in time on another.
 * @param {Places} places
 * @param {Record<string, ArrayLike<number>>} columns
 * @param {number} position
 * @param {string} key as keyboard events name it
 * @returns {number} `position` where there is nothing further
 */
export function neighbour({ rows, row, timeless }, columns, position, key) {
  const all = timeless.length ? [...rows.map(({ ctas }) => ctas), timeless] : rows.map(({ ctas }) => ctas);
  const own = row[position] >= 0 ? row[position] : all.length - 1;
  const ctas = all[own];
  const last = ctas.length - 1;
  const at = ctas.indexOf(position);
  if (key === "ArrowLeft") return ctas[Math.max(0, at - 1)];
  if (key === "ArrowRight") return ctas[Math.min(last, at + 1)];
  if (key === "Home") return ctas[0];
  if (key === "End") return ctas[last];
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (!step) return position;
  let next = own + step;
  while (all[next] && !all[next].length) next += step;
  if (!all[next]) return position;
  const middle = (/** @type {number} */ i) => (columns.cta_begin_ns[i] + columns.cta_end_ns[i]) / 2;
  const away = (/** @type {number} */ i) => Math.abs(middle(i) - middle(position));
  return all[next].reduce((best, i) => (away(i) < away(best) ? i : best));
}

/**
 * How much of each CTA some ranges make up: their whole durations over the CTA's cycles. NaN where that is not known:
 * the CTA did not finish, or all that it recorded of them was cut.
 * @param {Record<string, ArrayLike<number>>} columns
 * @param {boolean[]} wanted for each of the head's ranges
 * @returns {{share: Float64Array, cut: Int32Array}} per CTA; `cut` counts the ranges that are left out
 */
export function shares(columns, wanted) {
  const { cta_slices: slices, cta_cycles: cycles, cta_finished: finished } = columns;
  const { slice_range: range, slice_duration: duration, slice_cut: torn } = columns;
  const share = new Float64Array(slices.length).fill(NaN);
  const cut = new Int32Array(slices.length);
  let first = 0;
  for (let i = 0; i < slices.length; i += 1) {
    const behind = first + slices[i];
    let [total, whole] = [0, 0];
    for (; first < behind; first += 1) {
      if (!wanted[range[first]]) continue;
      if (torn[first]) cut[i] += 1;
      else {
        total += duration[first];
        whole += 1;
      }
    }
    if (finished[i] && cycles[i] > 0 && (whole || !cut[i])) share[i] = total / cycles[i];
  }
  return { share, cut };
}

/**
 * How long each CTA took, in nanoseconds.
 * @param {Record<string, ArrayLike<number>>} columns
 */
export function durations({ cta_begin_ns: begin, cta_end_ns: end }) {
  return Float64Array.from(begin, (value, i) => end[i] - value);
}

/**
 * @typedef {object} Scale
 * @property {number} low value of the first shade
 * @property {number} high value of the last shade
 * @property {number} below values less than `low`
 * @property {number} above values greater than `high`
 */

/**
 * From the least value to the greatest, but for outliers: one CTA that took ten times as long as the others would leave
 * all of these in one shade. Outliers lie further from the quartiles than three times what these lie apart (Tukey's
 * "far out").
 * @param {ArrayLike<number>} values those that are not finite do not count
 * @returns {Scale | null} null without a finite one
 */
export function scaleOf(values) {
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort();
  if (!sorted.length) return null;
  const last = sorted.length - 1;
  const [lower, upper] = [sorted[Math.floor(last / 4)], sorted[Math.ceil((3 * last) / 4)]];
  const fence = FENCE * (upper - lower);
  // Where half of the CTAs took the same time to the digit, all others would be outliers.
  if (!(fence > 0)) return { low: sorted[0], high: sorted[last], below: 0, above: 0 };
  const inside = sorted.filter((value) => value >= lower - fence && value <= upper + fence);
  const [low, high] = [inside[0], inside[inside.length - 1]];
  const count = (/** @type {(value: number) => boolean} */ of) => sorted.filter(of).length;
  return { low, high, below: count((value) => value < low), above: count((value) => value > high) };
}

/**
 * Which of `shades` shades a value has; -1 for one that is not known.
 * @param {number} value
 * @param {Scale} scale
 * @param {number} shades
 */
export function shadeOf(value, { low, high }, shades) {
  if (!Number.isFinite(value)) return -1;
  const along = high > low ? (value - low) / (high - low) : 0.5;
  return Math.min(shades - 1, Math.max(0, Math.floor(along * shades)));
}

/** Whether a value lies beyond its scale. @param {number} value @param {Scale} scale */
export function isOutlier(value, { low, high }) {
  return value < low || value > high;
}

/**
 * Rows that are named so that names do not overlap: every first, second, fifth, tenth, ...
 * @param {SmRow[]} rows
 * @param {number[]} tops px
 * @param {number} least px from one name to the next
 */
export function labelled(rows, tops, least) {
  const pitch = rows.length > 1 ? (tops[tops.length - 1] - tops[0]) / (rows.length - 1) : least;
  const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((every) => every * pitch >= least) ?? 1024;
  let free = -Infinity;
  return rows.flatMap(({ sm }, at) => {
    if ((sm >= 0 && sm % step) || tops[at] < free) return [];
    free = tops[at] + least;
    return [at];
  });
}
