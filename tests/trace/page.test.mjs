// Unit tests of what the page's scripts compute, for node's own runner: node --test tests/trace/page.test.mjs

import assert from "node:assert/strict";
import test from "node:test";

const assets = new URL("../../src/tileops/trace/export/html/assets/", import.meta.url);
const load = (name) => import(new URL(name, assets));
const { COLOURS, colourIndex, colourOf, inkOn, shades } = await load("palette.js");
const format = await load("format.js");
const { matching, coordinates } = await load("filter.js");
const { BAR, Scene, distanceToSegment, layOut, within } = await load("model.js");
const { unpack } = await load("recording.js");
const map = await load("map_model.js");

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

// CTAs of a launch, as the GPU map reads them: SM, begin and end of each.
const launch = (ctas) => ({
  cta_cta: ctas.map((_, i) => i),
  cta_sm: ctas.map(([sm]) => sm),
  cta_begin_ns: ctas.map(([, begin]) => begin),
  cta_end_ns: ctas.map(([, , end]) => end),
});
const four = launch([[3, 0, 100], [1, 10, 60], [3, 50, 150], [3, 110, 160], [3, 150, 170], [1, NaN, NaN]]);

test("CTAs of an SM that run at the same time lie in lines below each other", () => {
  const places = map.place(four, 0);
  assert.deepEqual(places.rows.map(({ sm, ctas, lines }) => [sm, ctas, lines]), [
    [0, [], 1], [1, [1], 1], [2, [], 1], [3, [0, 2, 3, 4], 2],
  ]);
  assert.deepEqual(places.lines, [[], [1], [], [0, 3], [2, 4]]);
  assert.deepEqual([...places.line], [3, 1, 4, 3, 4, -1]);
  assert.deepEqual([...places.row], [3, 1, 3, 3, 3, -1]);
  assert.deepEqual(places.timeless, [5]);
  assert.deepEqual([places.from, places.to, places.seen], [0, 170, 2]);
  // SM 3 held one from 0 to 170, SM 1 from 10 to 60.
  assert.equal(places.busy, (170 + 50) / (2 * 170));
});

test("an overlap within the axis's error is none", () => {
  const behind = launch([[0, 0, 100], [0, 90, 190]]);
  assert.equal(map.place(behind, 0).rows[0].lines, 2);
  assert.equal(map.place(behind, null).rows[0].lines, 2);
  assert.equal(map.place(behind, 20).rows[0].lines, 1);
  // But not of CTAs that last no longer than that error.
  assert.equal(map.place(launch([[0, 0, 15], [0, 0, 15]]), 20).rows[0].lines, 2);
});

test("an SM that is not known comes last, and absurd numbers make no rows", () => {
  const sms = (ctas) => map.place(launch(ctas), 0).rows.map(({ sm }) => sm);
  assert.deepEqual(sms([[-1, 0, 1], [1, 0, 1]]), [0, 1, -1]);
  assert.deepEqual(sms([[2, 0, 1], [1e9, 0, 1]]), [2, 1e9]);
  const nothing = map.place(launch([[2, NaN, NaN], [-1, 5, NaN]]), 0);
  assert.deepEqual([nothing.rows, nothing.timeless], [[], [0, 1]]);
  assert.deepEqual([nothing.from, nothing.to, nothing.busy], [NaN, NaN, NaN]);
  assert.ok(Number.isNaN(map.place(launch([[0, 5, 5]]), 0).busy));
});

test("bars shrink until all SMs fit", () => {
  const sms = (count, each) => launch(Array.from({ length: count * each }, (_, i) => [i % count, 0, 10]));
  const bars = [[1, 1], [40, 1], [132, 1], [132, 2], [132, 32]].map(([count, each]) => {
    const places = map.place(sms(count, each), 0);
    const measures = map.measure(places, 600, 1000);
    const { bar, rowTop, rowHeight, lineTop, height } = measures;
    places.rows.forEach(({ line, lines }, at) => {
      assert.equal(lineTop[line], rowTop[at]);
      assert.equal(lineTop[line + lines - 1] + bar, rowTop[at] + rowHeight[at]);
      assert.ok(rowTop[at] + rowHeight[at] < (rowTop[at + 1] ?? Infinity));
    });
    assert.ok(height >= lineTop[lineTop.length - 1] + bar);
    assert.ok(bar === 1 || height <= 840);
    return bar;
  });
  assert.deepEqual(bars, [22, 11, 3, 2, 1]);
});

test("the CTA under the pointer", () => {
  const places = map.place(four, 0);
  const measures = map.measure(places, 600, 300);
  const { bar, lineTop, strip } = measures;
  const at = (x, y) => map.pick(places, measures, four, x, y, (ns) => 2 * ns);
  const middle = (line) => lineTop[line] + bar / 2;
  assert.deepEqual([0, 199, 219, 221, 319].map((x) => at(x, middle(3))), [0, 0, 3, 3, 3]);
  assert.deepEqual([99, 101, 299, 300, 339].map((x) => at(x, middle(4))), [2, 2, 2, 4, 4]);
  assert.deepEqual([17, 18.5, 121, 130].map((x) => at(x, middle(1))), [-1, 1, 1, -1]);
  assert.deepEqual([middle(0), middle(2), lineTop[3] - 2].map((y) => at(60, y)), [-1, -1, -1]);
  assert.equal(at(strip.size / 2, strip.top + strip.size / 2), 5);
  assert.equal(at(strip.pitch + 2, strip.top + strip.size / 2), -1);
  const nothing = map.place(launch([]), 0);
  assert.equal(map.pick(nothing, map.measure(nothing, 600, 300), launch([]), 5, 5, (ns) => ns), -1);
});

test("thin lines can be hit, and every bar is found in the middle of where it is drawn", () => {
  const begin = (i) => 7 * Math.floor(i / 132);
  const columns = launch(Array.from({ length: 3000 }, (_, i) => [i % 132, begin(i), begin(i) + 20]));
  const places = map.place(columns, 0);
  const measures = map.measure(places, 400, 1000);
  assert.equal(measures.bar, 1);
  for (let i = 0; i < 3000; i += 1) {
    const x = (columns.cta_begin_ns[i] + columns.cta_end_ns[i]) / 2;
    assert.equal(map.pick(places, measures, columns, 5 * x, measures.lineTop[places.line[i]] + 0.5, (ns) => 5 * ns), i);
  }
});

test("CTAs without a time stand in lines as wide as the plot", () => {
  const columns = launch(Array.from({ length: 2500 }, () => [0, NaN, NaN]));
  const places = map.place(columns, 0);
  const { strip, height } = map.measure(places, 600, 400);
  assert.equal(strip.columns, 100);
  assert.equal(height - strip.top, 25 * strip.pitch);
  const measures = map.measure(places, 600, 400);
  const at = (x, y) => map.pick(places, measures, columns, x, strip.top + y, (ns) => ns);
  assert.deepEqual([at(0, 0), at(399, 0), at(401, 0), at(0, 4), at(399, 99)], [0, 99, -1, 100, 2499]);
});

test("where keys lead", () => {
  const places = map.place(four, 0);
  const after = (at, key) => map.neighbour(places, four, at, `Arrow${key}`);
  const from = (position, ...keys) => keys.reduce(after, position);
  assert.deepEqual([from(0, "Right"), from(0, "Right", "Right"), from(4, "Right"), from(0, "Left")], [2, 3, 4, 0]);
  // Over the idle SM to the nearest in time; then to the CTA that has none.
  assert.deepEqual([from(0, "Up"), from(4, "Up"), from(1, "Down"), from(1, "Up")], [1, 1, 0, 1]);
  assert.deepEqual([from(4, "Down"), from(4, "Down", "Down"), from(4, "Down", "Up")], [5, 5, 0]);
  assert.deepEqual(["Home", "End", "x"].map((key) => map.neighbour(places, four, 2, key)), [0, 4, 2]);
});

test("shares leave out what was cut", () => {
  const columns = {
    cta_slices: [3, 0, 1, 1],
    cta_cycles: [100, 100, 50, 0],
    cta_finished: [1, 1, 1, 0],
    slice_range: [0, 1, 0, 0, 0],
    slice_duration: [20, 70, 5, 9, 9],
    slice_cut: [0, 0, 1, 1, 0],
  };
  const { share, cut } = map.shares(columns, [true, false]);
  assert.deepEqual([...share], [0.2, 0, NaN, NaN]);
  assert.deepEqual([...cut], [1, 0, 1, 0]);
  assert.deepEqual([...map.shares(columns, [true, true]).share].slice(0, 2), [0.9, 0]);
});

test("a scale spans all values but outliers", () => {
  const near = Array.from({ length: 100 }, (_, i) => 100 + i);
  assert.deepEqual(map.scaleOf(near), { low: 100, high: 199, below: 0, above: 0 });
  assert.deepEqual(map.scaleOf([...near, NaN, 2000, 5000, -900]), { low: 100, high: 199, below: 1, above: 2 });
  assert.deepEqual(map.scaleOf([5, 5, 5, 5, 5, 9]), { low: 5, high: 9, below: 0, above: 0 });
  assert.equal(map.scaleOf([NaN]), null);
  assert.equal(map.scaleOf([]), null);
  const scale = { low: 100, high: 200 };
  const shade = (value) => map.shadeOf(value, scale, 4);
  assert.deepEqual([100, 149, 150, 200, 999, 0, NaN].map(shade), [0, 1, 2, 3, 3, 0, -1]);
  assert.equal(map.shadeOf(7, { low: 7, high: 7 }, 4), 2);
  const outliers = [99, 100, 200, 201, NaN].filter((value) => map.isOutlier(value, scale));
  assert.deepEqual(outliers, [99, 201]);
});

test("shades rise in lightness alone, and stand out from what is behind them", () => {
  const luminance = (colour) => {
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    const [r, g, b] = parts.map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  // page.css's --surface and --track.
  for (const [dark, ...backs] of [[false, "#ffffff", "#e9ecf1"], [true, "#151920", "#232a33"]]) {
    const levels = shades(dark).map(luminance);
    levels.slice(1).forEach((level, i) => assert.ok(dark ? level > levels[i] : level < levels[i]));
    for (const back of backs.map(luminance)) {
      for (const level of levels) assert.ok(Math.max(level, back) / Math.min(level, back) >= 1.45);
    }
    shades(dark).forEach((shade) => assert.match(shade, /^#[0-9a-f]{6}$/));
  }
});

test("as many SMs are named as there is room for", () => {
  const rows = Array.from({ length: 132 }, (_, sm) => ({ sm }));
  const named = (pitch, all = rows) => map.labelled(all, all.map((_, at) => at * pitch), 15).map((at) => all[at].sm);
  assert.equal(named(20).length, 132);
  assert.deepEqual(named(4).slice(0, 3), [0, 4, 8]);
  assert.deepEqual(named(3).slice(0, 3), [0, 8, 16]);
  assert.deepEqual(named(20, [{ sm: 7 }, { sm: -1 }]), [7, -1]);
  assert.deepEqual(named(9, []), []);
});
