// The page's state as the part of its address behind "#": a link opens the same CTA and span.

/**
 * @typedef {object} State
 * @property {"cta" | "gpu"} view
 * @property {number | null} cta linear number
 * @property {[number, number] | null} span that is shown, in cycles; null is all
 * @property {[number, number] | null} selection in cycles
 * @property {[number, number] | null} ruler in cycles
 * @property {number | null} slice that is chosen, among the CTA's
 * @property {string} unit of the axis
 * @property {string} find text of the search
 * @property {boolean} payloads whether labels have them
 * @property {[number, number] | null} map span that the map shows, in ns; null is all
 * @property {[number, number] | null} mapRuler in ns
 * @property {string} colour the range whose share the map's colours stand for; empty for durations
 * @property {string[]} hidden names
 * @property {string[]} arrows that are hidden, "src→dst"
 */

/** @returns {State} what an address without a hash stands for */
export function initial() {
  return {
    view: "cta", cta: null, span: null, selection: null, ruler: null, slice: null, unit: "cycles", find: "",
    payloads: false, map: null, mapRuler: null, colour: "", hidden: [], arrows: [],
  };
}

/** Spans of the state, and what the address calls them. */
const SPANS = /** @type {const} */ ([
  ["span", "span"], ["selection", "selection"], ["ruler", "ruler"], ["map", "map"], ["mapRuler", "map-ruler"],
]);

/** @param {State} state */
export function formatHash(state) {
  const parts = new URLSearchParams();
  if (state.view === "gpu") parts.set("view", "gpu");
  if (state.cta !== null) parts.set("cta", String(state.cta));
  for (const [key, name] of SPANS) {
    const span = state[key];
    if (span) parts.set(name, span.map((value) => String(Math.round(10 * value) / 10)).join("_"));
  }
  if (state.slice !== null) parts.set("slice", String(state.slice));
  if (state.unit !== "cycles") parts.set("unit", state.unit);
  if (state.find) parts.set("find", state.find);
  if (state.payloads) parts.set("labels", "payload");
  if (state.colour) parts.set("colour", state.colour);
  state.hidden.forEach((name) => parts.append("hide", name));
  state.arrows.forEach((edge) => parts.append("hide-arrows", edge));
  return parts.toString();
}

/**
 * Reads a hash, from wherever it comes.
 * @param {string} text with or without "#"
 * @returns {{state: State, wrong: string[]}} and the parts of it that say nothing
 */
export function parseHash(text) {
  const state = initial();
  /** @type {string[]} */
  const wrong = [];
  for (const [key, value] of new URLSearchParams(text.replace(/^#/, ""))) {
    if (!take(state, key, value)) wrong.push(`${key}=${value}`);
  }
  return { state, wrong };
}

/** Whether a part says something. @param {State} state @param {string} key @param {string} value */
function take(state, key, value) {
  const number = /^\d{1,15}$/.test(value) ? Number(value) : null;
  if (key === "view" && (value === "cta" || value === "gpu")) state.view = value;
  else if (key === "cta" && number !== null) state.cta = number;
  else if (key === "slice" && number !== null) state.slice = number;
  else if (key === "unit" && ["cycles", "ns", "gpu"].includes(value)) state.unit = value;
  else if (key === "find") state.find = value;
  else if (key === "labels" && value === "payload") state.payloads = true;
  else if (key === "colour" && value) state.colour = value;
  else if (key === "hide") state.hidden.push(value);
  else if (key === "hide-arrows") state.arrows.push(value);
  else {
    const [found] = SPANS.find(([, name]) => name === key) ?? [];
    const span = /^(-?\d{1,15}(?:\.\d+)?)_(-?\d{1,15}(?:\.\d+)?)$/.exec(value);
    if (!found || !span) return false;
    const ends = [Number(span[1]), Number(span[2])].sort((a, b) => a - b);
    if (ends[0] === ends[1] && found !== "ruler" && found !== "mapRuler") return false;
    state[found] = [ends[0], ends[1]];
  }
  return true;
}
