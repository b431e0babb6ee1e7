// The legend of a CTA: its names and arrows, each with its number, to hide and to show.

import { integer } from "./format.js";
import { colourOf } from "./palette.js";
import { byId, make, named } from "./elements.js";

/**
 * @param {import("./recording.js").Head} head
 * @param {import("./recording.js").Events} events
 * @param {import("./figure.js").Hidden} hidden changed by clicks
 * @param {() => void} onChange
 */
export function fillLegend(head, events, hidden, onChange) {
  const { slices, instants, flows } = events;
  /** @type {Map<string, {count: number, lane: number}>} */
  const names = new Map();
  const add = (/** @type {string} */ name, /** @type {number} */ lane) => {
    const known = names.get(name) ?? { count: 0, lane };
    names.set(name, { count: known.count + 1, lane: Math.min(lane, known.lane) });
  };
  for (let i = 0; i < slices.count; i += 1) add(head.ranges[slices.range[i]][1], head.ranges[slices.range[i]][0]);
  for (let i = 0; i < instants.count; i += 1) add(head.marks[instants.mark[i]][1], head.marks[instants.mark[i]][0]);
  const chips = [...names].sort((a, b) => a[1].lane - b[1].lane).map(([name, { count }]) => {
    const swatch = make("span", "swatch");
    swatch.style.background = colourOf(name);
    const content = [swatch, named(name), make("span", "count", integer(count))];
    return chip(hidden.names, name, names.keys(), content, onChange);
  });
  /** @type {Map<number, number>} */
  const edges = new Map();
  for (let i = 0; i < flows.count; i += 1) edges.set(flows.edge[i], (edges.get(flows.edge[i]) || 0) + 1);
  for (const [edge, count] of [...edges].sort((a, b) => a[0] - b[0])) {
    const [src, dst] = head.edges[edge];
    const content = [named(src), make("span", "arrow", "→"), named(dst), make("span", "count", integer(count))];
    const made = chip(hidden.edges, edge, edges.keys(), content, onChange);
    made.classList.add("edge");
    chips.push(made);
  }
  byId("legend").replaceChildren(...chips);
}

/**
 * A part of the legend. A click hides or shows; with Shift, everything of its kind but this.
 * @param {Set<any>} hidden @param {any} key @param {Iterable<any>} all @param {Node[]} content
 * @param {() => void} onChange
 */
function chip(hidden, key, all, content, onChange) {
  const others = [...all].filter((other) => other !== key);
  const made = make("button", "chip", ...content);
  made.type = "button";
  made.setAttribute("aria-pressed", String(!hidden.has(key)));
  made.title = "Click to hide or show, Shift-click to show this one alone";
  made.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    if (event.shiftKey) {
      const alone = !hidden.has(key) && others.every((other) => hidden.has(other));
      hidden.delete(key);
      others.forEach((other) => (alone ? hidden.delete(other) : hidden.add(other)));
    } else if (!hidden.delete(key)) {
      hidden.add(key);
    }
    onChange();
  });
  return made;
}
