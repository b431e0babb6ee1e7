// What the box above the tabs understands.

/**
 * The CTAs that a query names.
 *
 * "12" stands for linear numbers that begin with these digits, the exact one first; "#12" for that one alone; "3, 12"
 * for block coordinates, from x on, where "*" or nothing stands for any: ", 12" is every block of y = 12.
 *
 * @param {string} query
 * @param {ArrayLike<number>} numbers linear
 * @param {ArrayLike<number>[]} block x, y and z of each
 * @returns {number[] | null} their positions; null for a query that names all
 */
export function matching(query, numbers, block) {
  const text = query.replace(/[()[\]]/g, " ").trim();
  if (text === "") return null;
  const all = Array.from(numbers, (_, position) => position);
  const exact = /^#\s*(\d+)$/.exec(text);
  if (exact) return all.filter((position) => numbers[position] === Number(exact[1]));
  if (/^\d+$/.test(text)) {
    const found = all.filter((position) => String(numbers[position]).startsWith(String(Number(text))));
    const same = found.findIndex((position) => numbers[position] === Number(text));
    if (same > 0) found.unshift(...found.splice(same, 1));
    return found;
  }
  const parts = (text.includes(",") ? text.split(",") : text.split(/\s+/)).map((part) => part.trim());
  if (parts.length > 3 || parts.some((part) => !/^(\d+|\*)?$/.test(part))) return [];
  return all.filter((position) =>
    parts.every((part, axis) => part === "" || part === "*" || block[axis][position] === Number(part)),
  );
}

/**
 * A block's coordinates as its grid has them: "(3, 12)" in a grid of two dimensions.
 * @param {number[]} block x, y and z
 * @param {number[]} grid extents along x, y and z
 */
export function coordinates(block, grid) {
  const dimensions = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
  return `(${block.slice(0, dimensions).join(", ")})`;
}

/**
 * The CTA at a place in the order of their cycles, of those that finished.
 * @param {ArrayLike<number>} cycles of each
 * @param {ArrayLike<number>} finished 1 for those that did
 * @param {number} fraction 0 is the fastest, 0.5 the median, the lower of two, 1 the slowest
 * @returns {number} its position, or -1 if none finished
 */
export function ranked(cycles, finished, fraction) {
  const order = [];
  for (let i = 0; i < cycles.length; i += 1) if (finished[i]) order.push(i);
  order.sort((a, b) => cycles[a] - cycles[b] || a - b);
  return order[Math.floor(fraction * (order.length - 1))] ?? -1;
}
