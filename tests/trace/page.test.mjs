// Unit tests of what the page's scripts compute, for node's own runner: node --test tests/trace/page.test.mjs

import assert from "node:assert/strict";
import test from "node:test";

const assets = new URL("../../src/tileops/trace/export/html/assets/", import.meta.url);
const load = (name) => import(new URL(name, assets));
const { COLOURS, colourIndex, colourOf, inkOn } = await load("palette.js");
const format = await load("format.js");
const { matching, coordinates } = await load("filter.js");
const { BAR, Scene, distanceToSegment, layOut, summarize, within } = await load("model.js");
const { unpack } = await load("recording.js");

test("the names that GEMMs use have colours of their own", () => {
  const names = "tma mma wait acquire arrive release drain prologue epilogue prefetch load store copy".split(" ");
  assert.equal(new Set(names.map(colourIndex)).size, names.length);
  // Files that exist were drawn with these.
  assert.deepEqual(["tma", "mma", "wait", "é数"].map(colourOf), ["#3d53b4", "#51cec7", "#c65e0b", colourOf("é数")]);
  assert.ok(COLOURS.includes(colourOf("")));
});

test("a label's ink contrasts with every colour by 4.5 at least", () => {
  const luminance = (colour) => {
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    const [r, g, b] = parts.map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  for (const colour of COLOURS) {
    const [one, other] = [luminance(colour), luminance(inkOn(colour))].sort((a, b) => b - a);
    assert.ok(one / other >= 4.5, `${colour}: ${one / other}`);
  }
});

test("numbers as text", () => {
  assert.equal(format.integer(-1234567), "−1,234,567");
  assert.equal(format.integer(NaN), "–");
  assert.equal(format.nanoseconds(1234.56), "1,234.6");
  const times = ["0 ns", "5.00 ns", "999 ns", "12.3 µs", "1.50 ms", "3.20 s"];
  assert.deepEqual([0, 5, 999, 12345, 1.5e6, 3.2e9].map(format.time), times);
  assert.equal(format.percent(0.1234), "12.3%");
  assert.equal(format.percent(NaN), "–");
  assert.equal(format.clock(1.7554), "1.755 GHz");
  assert.equal(format.counted(1, "event"), "1 event");
  assert.equal(format.counted(1000, "event"), "1,000 events");
  assert.equal(format.date("2025-11-03T14:05:09+00:00"), "2025-11-03 14:05:09 UTC");
  assert.equal(format.date("yesterday"), "yesterday");
});

test("payloads as the kernel saw them", () => {
  assert.equal(format.payload(-7, 1), "−7");
  assert.equal(format.payload(4294967295, 1), "4294967295");
  assert.equal(format.payload(Math.fround(0.1), 2), "0.1");
  assert.equal(format.payload(Math.fround(16777217), 2), "16777216");
  assert.equal(format.payload(Math.fround(-3.4028235e38), 2), "−3.4028235e+38");
  assert.equal(format.payload(NaN, 2), "NaN");
  assert.equal(format.payload(-Infinity, 2), "−Infinity");
});

test("names act on nothing around them", () => {
  assert.equal(format.shown(""), "(no name)");
  assert.equal(format.shown("a\nb\tc\u0000d\u202ee\u2028"), "a\\nb\\tc\\u0000d\\u202ee\\u2028");
  assert.equal(format.shown("mma 数 é <b>"), "mma 数 é <b>");
});

test("the filter", () => {
  const numbers = Array.from({ length: 24 }, (_, i) => i);
  const block = [(i) => i % 4, (i) => Math.floor(i / 4) % 3, (i) => Math.floor(i / 12)].map((of) => numbers.map(of));
  const found = (query) => matching(query, numbers, block);
  assert.equal(found("  "), null);
  assert.deepEqual(found("2"), [2, 20, 21, 22, 23]);
  assert.deepEqual(found("007"), [7]);
  assert.deepEqual(found("#2"), [2]);
  assert.deepEqual(found("3, 1"), [7, 19]);
  assert.deepEqual(found("(3, 1, 1)"), [19]);
  assert.deepEqual(found("3 1 0"), [7]);
  assert.deepEqual(found("*, 2, 1"), [20, 21, 22, 23]);
  assert.deepEqual(found(",,1"), numbers.slice(12));
  assert.deepEqual(found("3,"), [3, 7, 11, 15, 19, 23]);
  assert.deepEqual(found("1,2,3,4"), []);
  assert.deepEqual(found("x"), []);
  assert.deepEqual(found("-1"), []);
  assert.equal(coordinates([3, 1, 0], [4, 3, 1]), "(3, 1)");
  assert.equal(coordinates([3, 0, 0], [4, 1, 1]), "(3)");
  assert.equal(coordinates([3, 0, 1], [4, 1, 2]), "(3, 0, 1)");
});

const head = {
  lanes: [["a", "main", 1], ["a", "x", 0], ["b", "main", 0]],
  ranges: [[0, "outer", 0], [0, "inner", 1], [2, "far", 0]],
  marks: [[1, "tick"]],
  edges: [["outer", "far"]],
};
const events = {
  slices: { count: 4, range: [0, 1, 2, 2], start: [0, 10, 130, 150], duration: [100, 20, 20, 0], cut: [0, 0, 0, 1] },
  instants: { count: 1, mark: [0], time: [50] },
  flows: { count: 1, edge: [0], src: [0], dst: [2], start: [100], end: [130] },
  rows: [],
};
const nothingHidden = { names: new Set(), edges: new Set() };

test("rows do not overlap, and hold their depth", () => {
  for (const headings of [false, true]) {
    const { rows, height } = layOut(head.lanes, headings);
    assert.deepEqual(rows.map((row) => row.first), [true, false, true]);
    rows.forEach((row, at) => {
      const [, , depth] = head.lanes[at];
      assert.ok(row.bars + (depth + 1) * BAR <= row.top + row.height);
      assert.ok(row.top + row.height <= (rows[at + 1]?.top ?? height));
    });
  }
});

test("what lies under the pointer", () => {
  const { rows } = layOut(head.lanes, false);
  const scene = new Scene(head, events, rows, nothingHidden);
  const same = (cycles) => cycles;
  const top = (i) => scene.sliceTop[i] + BAR / 2;
  const at = (x, y) => {
    const hit = scene.pick(x, y, same);
    return hit && `${hit.kind} ${hit.index}`;
  };
  assert.equal(at(40, top(0)), "slice 0");
  assert.equal(at(20, top(1)), "slice 1");
  assert.equal(at(40, top(1)), null);
  assert.equal(at(31, top(1)), "slice 1"); // a pixel beside it
  assert.equal(at(140, top(2)), "slice 2");
  assert.equal(at(150, top(2)), "slice 3"); // two that touch: the one that begins here
  assert.equal(at(51, scene.markTop[0] - 3), "instant 0");
  assert.equal(at(115, (scene.flowFrom[0] + scene.flowTo[0]) / 2), "flow 0");
  assert.equal(at(130, scene.flowTo[0] + 1), "flow 0"); // its end, inside the bar
  assert.deepEqual(scene.flowsOf(2), [0]);
  assert.deepEqual([scene.begin, scene.end], [0, 150]);

  const hidden = new Scene(head, events, rows, { names: new Set(["far", "tick"]), edges: new Set() });
  assert.deepEqual([hidden.slices, hidden.flows, hidden.instants], [[0, 1], [], []]);
  assert.equal(hidden.pick(140, top(2), same), null);
  const edgeless = new Scene(head, events, rows, { names: new Set(), edges: new Set([0]) });
  assert.deepEqual(edgeless.flows, []);
});

test("distance to a segment", () => {
  assert.equal(distanceToSegment(5, 3, 0, 0, 10, 0), 3);
  assert.equal(distanceToSegment(13, 4, 0, 0, 10, 0), 5);
  assert.equal(distanceToSegment(3, 4, 0, 0, 0, 0), 5);
});

test("totals leave out what was cut", () => {
  const lines = summarize(head, events);
  assert.deepEqual(lines.map(({ name, group, lane, count, cut, total }) => [name, group, lane, count, cut, total]), [
    ["outer", "a", "main", 1, 0, 100],
    ["inner", "a", "main", 1, 0, 20],
    ["far", "b", "main", 1, 1, 20],
  ]);
});

test("a span keeps within its bounds", () => {
  assert.deepEqual(within([10, 20], [0, 100], 5), [10, 20]);
  assert.deepEqual(within([-10, 10], [0, 100], 5), [0, 20]);
  assert.deepEqual(within([95, 115], [0, 100], 5), [80, 100]);
  assert.deepEqual(within([-50, 500], [0, 100], 5), [0, 100]);
  assert.deepEqual(within([50, 50], [0, 100], 10), [45, 55]);
});

test("another version of the data is refused", async () => {
  await assert.rejects(unpack({ version: 0 }, ""), /version 0/);
});
