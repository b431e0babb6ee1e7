// Finding ranges: those that a text names, and from one occurrence to the next.

/** @typedef {import("./recording.js").Events} Events */
/** @typedef {import("./recording.js").Head} Head */

/**
 * The ranges whose "group / lane / name" holds all words of a text, in upper or lower case.
 * @param {Head} head
 * @param {string} query
 * @returns {boolean[] | null} one for each of the recording's ranges; null for a text without words
 */
export function sought(head, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return head.ranges.map(([lane, name]) => {
    const text = `${head.lanes[lane][0]} / ${head.lanes[lane][1]} / ${name}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/**
 * The ranges of the same lane and name.
 * @param {Head} head
 * @param {number} code of a range
 * @returns {boolean[]} one for each of the recording's ranges
 */
export function alike(head, code) {
  const [lane, name] = head.ranges[code];
  return head.ranges.map((range) => range[0] === lane && range[1] === name);
}

/**
 * A CTA's slices of some ranges, by their begins.
 * @param {Events} events
 * @param {boolean[]} wanted one for each of the recording's ranges
 * @returns {Int32Array} positions among the CTA's slices
 */
export function occurrences(events, wanted) {
  const { count, range, start } = events.slices;
  const found = [];
  for (let i = 0; i < count; i += 1) if (wanted[range[i]]) found.push(i);
  return Int32Array.from(found).sort((a, b) => start[a] - start[b] || a - b);
}

/**
 * The occurrence behind (or ahead of) one, or of a moment; round from the last to the first.
 * @param {Int32Array} found what `occurrences` gave
 * @param {number} slice where to go on from; -1 goes on from the moment
 * @param {number} moment
 * @param {ArrayLike<number>} start of each slice
 * @param {1 | -1} step
 * @returns {number} a slice, or -1 if there is none
 */
export function following(found, slice, moment, start, step) {
  if (!found.length) return -1;
  const at = slice < 0 ? -1 : found.indexOf(slice);
  if (at >= 0) return found[(at + step + found.length) % found.length];
  const from = slice < 0 ? moment : start[slice];
  const next = found.findIndex((i) => start[i] >= from);
  const behind = next < 0 ? found.length : next;
  return found[(step > 0 ? behind : behind - 1 + found.length) % found.length];
}
