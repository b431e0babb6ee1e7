// The page's header and footer: what is known of the launch.

import { clock, counted, date, integer, shown, time } from "./format.js";
import { byId, fillAlerts, fillFacts, make } from "./elements.js";

/** @typedef {import("./recording.js").Recording} Recording */

const SOME = 8; // names of a list before "and n more"

/** @param {Recording} recording @param {(position: number) => string} nameOf a CTA */
export function fillHeader(recording, nameOf) {
  const { head } = recording;
  const { meta } = head;
  document.title = shown(head.title);
  byId("title").textContent = shown(head.title);
  const kernel = String(meta.kernel ?? "");
  const grid = head.grid.join(" × ");
  const launch = [
    kernel && kernel !== head.title ? kernel : "",
    meta.device,
    meta.target && `target ${meta.target}`,
    `grid ${grid}`,
    meta.arguments,
    meta.date && date(String(meta.date)),
  ].filter((part) => part !== undefined && part !== null && part !== "" && part !== false);
  byId("launch").replaceChildren(...launch.map((part) => make("span", "", shown(String(part)))));
  byId("told").replaceChildren(...head.told.map((part) => make("span", "", shown(part))));
  const dropped = recording.total("dropped");
  const unfinished = recording.count - recording.total("finished");
  fillFacts(byId("facts"), [
    ["CTAs", integer(recording.count)],
    ["Events", integer(recording.total("recorded"))],
    ["Dropped", integer(dropped), dropped ? "bad" : ""],
    ["Unfinished", integer(unfinished), unfinished ? "bad" : ""],
    ["Clock, measured", clocks(recording.columns.cta_ghz)],
    ["Axis error", head.axisError === null ? "unknown" : `± ${time(head.axisError)}`],
  ]);
  fillTroubles(recording, nameOf, dropped, unfinished);
  fillFooter(recording, grid);
}

/** The SMs' clocks, from the slowest to the fastest. @param {ArrayLike<number>} ghz of each CTA */
function clocks(ghz) {
  let [least, most] = [Infinity, -Infinity];
  for (let i = 0; i < ghz.length; i += 1) {
    if (!Number.isFinite(ghz[i])) continue;
    least = Math.min(least, ghz[i]);
    most = Math.max(most, ghz[i]);
  }
  if (least > most) return "unknown";
  return clock(least) === clock(most) ? clock(most) : `${least.toFixed(3)} to ${clock(most)}`;
}

/**
 * @param {Recording} recording
 * @param {(position: number) => string} nameOf
 * @param {number} dropped
 * @param {number} unfinished
 */
function fillTroubles(recording, nameOf, dropped, unfinished) {
  const { row_recorded: recorded, row_dropped: lost, cta_finished: finished } = recording.columns;
  const { neverFired } = recording.head;
  /** @type {[string, string, (string | Node)[]?][]} */
  const alerts = [];
  if (dropped) {
    let most = 0;
    for (let i = 0; i < recorded.length; i += 1) most = Math.max(most, recorded[i] + lost[i]);
    const held = most ? ` max_events=${most} would have held them all.` : "";
    const text = `${counted(dropped, "event")} dropped, since rows were full: ranges are cut or missing.${held}`;
    alerts.push(["bad", text]);
  }
  if (unfinished) {
    const positions = [...finished.keys()].filter((position) => !finished[position]);
    const names = positions.slice(0, SOME).map((position) => nameOf(position));
    const more = positions.length > SOME ? ` and ${integer(positions.length - SOME)} more` : "";
    const text = `${counted(unfinished, "CTA")} did not finish and cannot be trusted: ${names.join(", ")}${more}.`;
    alerts.push(["bad", text]);
  }
  if (neverFired.length) {
    const text = `${counted(neverFired.length, "marker")} never fired in this launch`;
    alerts.push(["warn", text, neverFired.map(shown)]);
  }
  if (!recording.count) alerts.push(["", "This recording holds no CTA."]);
  fillAlerts(byId("alerts"), alerts);
}

/** @param {Recording} recording @param {string} grid */
function fillFooter({ head: { meta } }, grid) {
  const versions = meta.versions && typeof meta.versions === "object" ? Object.entries(meta.versions) : [];
  const known = Object.entries(meta).filter(([key]) => key !== "versions");
  const rows = [...known, ["grid", grid], ...versions.map(([name, version]) => [`${name} version`, version])];
  if (meta.versions && !versions.length) rows.push(["versions", meta.versions]);
  byId("meta").replaceChildren(
    ...rows.flatMap(([key, value]) => [
      make("dt", "", shown(String(key))),
      make("dd", "", shown(typeof value === "object" ? JSON.stringify(value) : String(value))),
    ]),
  );
  const made = versions.map(([name, version]) => `${name} ${version}`).join(" · ");
  byId("details").after(make("p", "versions", shown(made)));
}
