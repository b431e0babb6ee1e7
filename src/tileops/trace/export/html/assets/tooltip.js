// The tooltip: where it stands, and what it says of an event.

import { PAYLOAD_NONE, integer, nanoseconds, payload } from "./format.js";
import { colourOf } from "./palette.js";
import { byId, make, named } from "./elements.js";

/** @typedef {import("./recording.js").Head} Head */
/** @typedef {import("./recording.js").Events} Events */
/** @typedef {import("./recording.js").Cta} Cta */

/**
 * Shows the tooltip beside a point of the screen, or hides it.
 * @param {string} key of its content, which is made anew only if this changes
 * @param {{x: number, y: number} | null} point
 * @param {() => Node[]} content
 */
export function float(key, point, content) {
  const tooltip = byId("tooltip");
  tooltip.hidden = point === null;
  if (!point) return;
  if (tooltip.dataset.key !== key) {
    tooltip.dataset.key = key;
    tooltip.replaceChildren(...content());
  }
  const box = tooltip.getBoundingClientRect();
  const gap = 14;
  const right = point.x + gap + box.width <= window.innerWidth - 4;
  const below = point.y + gap + box.height <= window.innerHeight - 4;
  const left = right ? point.x + gap : Math.max(4, point.x - gap - box.width);
  const top = below ? point.y + gap : Math.max(4, point.y - gap - box.height);
  tooltip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

/**
 * What is known of an event.
 * @param {import("./figure.js").Hit} hit
 * @param {Head} head
 * @param {Events} events
 * @param {Cta} cta
 * @returns {Node[]}
 */
export function described({ kind, index }, head, events, cta) {
  const { slices, instants, flows } = events;
  if (kind === "flow") {
    const [src, dst] = head.edges[flows.edge[index]];
    const [start, end] = [flows.start[index], flows.end[index]];
    const ends = [flows.src[index], flows.dst[index]].map((slice) => head.ranges[slices.range[slice]][0]);
    return [
      make("p", "what", named(src), " → ", named(dst), make("small", "", ` #${integer(flows.occurrence[index])}`)),
      make("p", "where", ...laneOf(head, ends[0]), " → ", ...laneOf(head, ends[1])),
      times(cta, [["hand-off", end - start, false], ["leaves", start, true], ["arrives", end, true]]),
    ];
  }
  const [lane, name] = kind === "slice" ? head.ranges[slices.range[index]] : head.marks[instants.mark[index]];
  const swatch = make("span", "swatch");
  swatch.style.background = colourOf(name);
  const parts = [make("p", "what", swatch, named(name)), make("p", "where", ...laneOf(head, lane))];
  if (kind === "slice") {
    const [start, duration] = [slices.start[index], slices.duration[index]];
    parts.push(times(cta, [["start", start, true], ["end", start + duration, true], ["duration", duration, false]]));
  } else {
    parts.push(times(cta, [["at", instants.time[index], true]]));
  }
  const from = kind === "slice" ? slices : instants;
  const payloadKind = from.kind[index] ?? PAYLOAD_NONE;
  if (payloadKind !== PAYLOAD_NONE) {
    parts.push(make("p", "payload", "payload ", make("b", "", payload(from.payload[index], payloadKind))));
  }
  if (kind === "slice" && slices.cut[index]) {
    parts.push(make("p", "cut", "Cut: its end was not recorded, it lasted at least this long."));
  }
  return parts;
}

/** @param {Head} head @param {number} lane @returns {(Node | string)[]} */
export function laneOf(head, lane) {
  const [group, name] = head.lanes[lane];
  return [named(group), " / ", named(name)];
}

/**
 * Moments and spans in cycles and nanoseconds; moments also on the axis that all CTAs of the launch share.
 * @param {Cta} cta
 * @param {[string, number, boolean][]} lines title, cycles, and whether it is a moment
 */
function times({ ghz, beginNs }, lines) {
  const table = make("table");
  const heads = ["", "cycles", "ns", "ns, launch"].map((text) => make("th", "", text));
  table.append(make("tr", "", ...heads));
  for (const [title, cycles, moment] of lines) {
    const ns = cycles / ghz;
    const cells = [integer(cycles), nanoseconds(ns), moment ? nanoseconds(beginNs + ns) : ""];
    table.append(make("tr", "", make("th", "", title), ...cells.map((text) => make("td", "", text))));
  }
  return table;
}
