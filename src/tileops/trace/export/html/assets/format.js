// Numbers as text.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const MISSING = "–";

/** @param {string} text */
function withMinus(text) {
  return text.replace(/^-/, "−");
}

/** @param {number} value */
export function integer(value) {
  return Number.isFinite(value) ? withMinus(whole.format(value)) : MISSING;
}

/** A time in nanoseconds, to a tenth. @param {number} value */
export function nanoseconds(value) {
  return Number.isFinite(value) ? withMinus(tenths.format(value)) : MISSING;
}

/** A time in the unit that suits it. @param {number} value in nanoseconds */
export function time(value) {
  if (!Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  const [scale, unit] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${withMinus(three(value / scale))} ${unit}`;
}

/** Three significant digits, none of them lost before the decimal point. @param {number} value */
export function three(value) {
  const size = Math.abs(value);
  if (size >= 100) return whole.format(value);
  return value.toFixed(size >= 10 ? 1 : 2);
}

/** @param {number} value in GHz */
export function clock(value) {
  return Number.isFinite(value) ? `${value.toFixed(3)} GHz` : MISSING;
}

/** @param {number} value 1 is the whole */
export function percent(value) {
  return Number.isFinite(value) ? `${(100 * value).toFixed(1)}%` : MISSING;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${integer(count)} ${count === 1 ? one : many}`;
}

export const PAYLOAD_NONE = 0;
export const PAYLOAD_FLOAT = 2;

/**
 * A payload as its kernel saw it: a float32 in the fewest digits that give it back, not in a double's 17.
 * @param {number} value
 * @param {number} kind
 */
export function payload(value, kind) {
  if (kind !== PAYLOAD_FLOAT || !Number.isFinite(value)) return String(value).replace(/^-/, "−");
  for (let digits = 6; digits < 9; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return withMinus(String(Number(text)));
  }
  return withMinus(String(Number(value.toPrecision(9))));
}
