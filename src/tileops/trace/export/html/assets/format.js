// Numbers as text.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const MISSING = "–";
const ACTING = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

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
  if (size === 0) return "0 ns";
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

/**
 * A name on one line, with nothing in it that acts on the text around it: what breaks lines or turns the direction of
 * writing is spelled out.
 * @param {string} text
 */
export function shown(text) {
  if (text === "") return "(no name)";
  return text.replace(ACTING, (character) => {
    const known = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
    return known ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** A date as it comes in ISO 8601, easier on the eye; anything else as it is. @param {string} text */
export function date(text) {
  return text.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)$/, "$1 $2 UTC");
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
