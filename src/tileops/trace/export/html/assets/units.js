// The units of a CTA's axis. Times are kept in SM cycles since the CTA's begin; a unit is how they are shown.

import { integer, nanoseconds } from "./format.js";

/**
 * @typedef {object} Unit
 * @property {"cycles" | "ns" | "gpu"} key
 * @property {string} title the axis's
 * @property {string} name behind a number
 * @property {number} scale units a cycle
 * @property {number} offset of the CTA's begin, in units
 * @property {string} ticks the format of Plotly's ticks
 */

/** Keys and what a user sees of them. @type {["cycles" | "ns" | "gpu", string][]} */
export const UNITS = [
  ["cycles", "Cycles of its SM"],
  ["ns", "Nanoseconds"],
  ["gpu", "Nanoseconds, GPU’s axis"],
];

/** @type {Unit} */
export const CYCLES = {
  key: "cycles", title: "SM cycles since the CTA’s begin", name: "cycles", scale: 1, offset: 0, ticks: ",d",
};

/** Of values that are nanoseconds. @type {Unit} */
export const NANOSECONDS = {
  key: "gpu", title: "ns since the launch’s first CTA began", name: "ns", scale: 1, offset: 0, ticks: ",d",
};

/**
 * The unit as it is for a CTA, or cycles if the CTA's clock, or its place on the GPU's axis, is not known.
 * @param {string} key
 * @param {{ghz: number, beginNs: number}} cta
 * @returns {Unit}
 */
export function unitOf(key, { ghz, beginNs }) {
  const rest = { name: "ns", scale: 1 / ghz, ticks: ",.1~f" };
  if (key === "ns" && Number.isFinite(ghz)) {
    return { key, title: "ns since the CTA’s begin", offset: 0, ...rest };
  }
  if (key === "gpu" && Number.isFinite(ghz) && Number.isFinite(beginNs)) {
    return { key, title: NANOSECONDS.title, offset: beginNs, ...rest };
  }
  return CYCLES;
}

/** A span without its unit's name. @param {Unit} unit @param {number} cycles */
export function bare(unit, cycles) {
  return unit.key === "cycles" ? integer(cycles) : nanoseconds(cycles * unit.scale);
}

/** A span. @param {Unit} unit @param {number} cycles */
export function length(unit, cycles) {
  return `${bare(unit, cycles)} ${unit.name}`;
}

/** A moment. @param {Unit} unit @param {number} cycles since the CTA's begin */
export function moment(unit, cycles) {
  const value = unit.offset + cycles * unit.scale;
  return `${unit.key === "cycles" ? integer(value) : nanoseconds(value)} ${unit.name}`;
}
