// Unit tests of what the page's tools compute, for node's own runner: node --test tests/trace/tools.test.mjs

import assert from "node:assert/strict";
import test from "node:test";

const assets = new URL("../../src/tileops/trace/export/html/assets/", import.meta.url);
const load = (name) => import(new URL(name, assets));
const { percentile, sorted, totals } = await load("totals.js");
const { alike, following, occurrences, sought } = await load("occurrences.js");
const { formatHash, initial, parseHash } = await load("hash.js");
const { CYCLES, NANOSECONDS, UNITS, bare, length, moment, unitOf } = await load("units.js");
const { ranked } = await load("filter.js");
const { BAR, Scene, layOut } = await load("model.js");

/** Numbers from 0 up to 1, the same in each run. */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const head = {
  lanes: [["a", "main", 1], ["a", "x", 0], ["b", "main", 0]],
  // In an order that is not that of the rows; "far" is on two rows, "outer" on one row at two depths.
  ranges: [[2, "far", 0], [0, "outer", 0], [0, "inner", 1], [1, "far", 0], [0, "outer", 1]],
  marks: [[1, "tick"]],
  edges: [["outer", "far"]],
};

const slicesOf = (rows) => ({
  slices: {
    count: rows.length,
    range: rows.map(([range]) => range),
    start: rows.map(([, start]) => start),
    duration: rows.map(([, start, end]) => end - start),
    cut: rows.map(([, , , cut]) => Number(cut ?? 0)),
  },
  instants: { count: 0, mark: [], time: [] },
  flows: { count: 0, edge: [], src: [], dst: [], start: [], end: [] },
  rows: [],
});

// Totals --------------------------------------------------------------------------------------------------------------

test("totals of a whole CTA, in the order of the rows", () => {
  const events = slicesOf([[1, 0, 100], [2, 10, 30], [0, 130, 150], [4, 40, 45], [0, 150, 150, true], [3, 7, 7]]);
  const lines = totals(head, events, 200, null);
  assert.deepEqual(lines, [
    { at: 0, group: "a", lane: "main", name: "outer", count: 2, cut: 0, total: 105, mean: 52.5, p50: 52.5,
      p95: 5 + 0.95 * 95, max: 100, share: 0.525 },
    { at: 0, group: "a", lane: "main", name: "inner", count: 1, cut: 0, total: 20, mean: 20, p50: 20, p95: 20, max: 20,
      share: 0.1 },
    { at: 1, group: "a", lane: "x", name: "far", count: 1, cut: 0, total: 0, mean: 0, p50: 0, p95: 0, max: 0, share: 0 },
    { at: 2, group: "b", lane: "main", name: "far", count: 1, cut: 1, total: 20, mean: 20, p50: 20, p95: 20, max: 20,
      share: 0.1 },
  ]);
  assert.deepEqual(totals(head, slicesOf([]), 200, null), []);
});

test("what was cut is counted, and nothing more is said of it", () => {
  const [line] = totals(head, slicesOf([[1, 0, 100, true], [1, 120, 150, true]]), 200, null);
  assert.deepEqual([line.count, line.cut], [0, 2]);
  for (const column of ["total", "mean", "p50", "p95", "max", "share"]) assert.ok(Number.isNaN(line[column]), column);
  // A cut range that the span does not touch makes no line.
  assert.deepEqual(totals(head, slicesOf([[1, 0, 100, true]]), 200, [100, 150]), []);
});

test("cycles that are not known, or none, leave no share", () => {
  for (const cycles of [NaN, 0]) {
    const [line] = totals(head, slicesOf([[1, 0, 100]]), cycles, null);
    assert.deepEqual([line.count, line.total], [1, 100]);
    assert.ok(Number.isNaN(line.share));
  }
  // A selected span is known, whatever is known of its CTA.
  assert.equal(totals(head, slicesOf([[1, 0, 100]]), NaN, [50, 250])[0].share, 0.25);
});

test("a range of no length is in one of two spans that touch", () => {
  const events = slicesOf([[1, 50, 50]]);
  const count = (from, to) => totals(head, events, 200, [from, to]).reduce((sum, line) => sum + line.count, 0);
  assert.deepEqual([count(0, 50), count(50, 100), count(0, 100), count(51, 100)], [0, 1, 1, 0]);
  // And a range that only touches a span has no part in it.
  const touching = slicesOf([[1, 0, 50], [1, 100, 120]]);
  assert.deepEqual(totals(head, touching, 200, [50, 100]), []);
});

test("totals of spans against adding up cycle by cycle", () => {
  const next = random(7);
  const rows = Array.from({ length: 300 }, () => {
    const start = Math.floor(next() * 190) - 10;
    return [Math.floor(next() * 5), start, start + Math.floor(next() * 12), next() < 0.1];
  });
  const events = slicesOf(rows);
  const spans = Array.from({ length: 40 }, () => {
    const from = Math.floor(next() * 180);
    return [from, from + 1 + Math.floor(next() * 40)];
  });
  for (const [from, to] of [...spans, [-1000, 1000], [500, 600]]) {
    const lines = totals(head, events, 200, [from, to]);
    const keys = new Set();
    for (const line of lines) {
      keys.add(`${line.at} ${line.name}`);
      const mine = rows.filter(([range]) => head.ranges[range][0] === line.at && head.ranges[range][1] === line.name);
      const has = ([, start, end]) => {
        for (let cycle = from; cycle < to; cycle += 1) {
          if ((start <= cycle && cycle < end) || (start === end && start === cycle)) return true;
        }
        return false;
      };
      let cycles = 0;
      for (let cycle = from; cycle < to; cycle += 1) {
        cycles += mine.filter(([, start, end, cut]) => !cut && start <= cycle && cycle < end).length;
      }
      const inside = mine.filter(([, start, end, cut]) => !cut && start >= from && end <= to && has([0, start, end]));
      const durations = inside.map(([, start, end]) => end - start).sort((a, b) => a - b);
      assert.equal(line.count, mine.filter((row) => !row[3] && has(row)).length);
      assert.equal(line.cut, mine.filter((row) => row[3] && has(row)).length);
      if (line.count) assert.equal(line.total, cycles);
      if (line.count) assert.equal(line.share, cycles / (to - from));
      if (!durations.length) {
        assert.ok([line.mean, line.p50, line.p95, line.max].every(Number.isNaN));
        continue;
      }
      const sum = durations.reduce((one, other) => one + other);
      assert.ok(Math.abs(line.mean - sum / durations.length) < 1e-9);
      assert.equal(line.max, durations.at(-1));
      const middle = [Math.floor, Math.ceil].map((round) => durations[round((durations.length - 1) / 2)]);
      assert.equal(line.p50, (middle[0] + middle[1]) / 2);
    }
    for (const [range, start, end] of rows) {
      if (start < to && end > from) assert.ok(keys.has(`${head.ranges[range][0]} ${head.ranges[range][1]}`));
    }
  }
});

test("percentiles lie between the values around them", () => {
  // What numpy.percentile says of the same.
  const values = [1, 2, 4, 8, 16, 32];
  assert.deepEqual([0, 0.2, 0.5, 0.9, 1].map((part) => percentile(values, part)), [1, 2, 6, 24, 32]);
  assert.ok(Math.abs(percentile(values, 0.95) - 28) < 1e-9);
  assert.equal(percentile([7], 0.95), 7);
  assert.ok(Number.isNaN(percentile([], 0.5)));
});

test("lines in the order of a column", () => {
  const line = (name, group, lane, count, mean) => ({ name, group, lane, count, mean });
  const lines = [
    line("b", "y", "p", 2, NaN), line("a", "x", "q", 5, 3), line("c", "y", "o", 2, 10), line("d", "x", "z", 1, NaN),
  ];
  const names = (column, descending) => sorted(lines, column, descending).map(({ name }) => name).join("");
  assert.deepEqual([names("count", true), names("count", false)], ["abcd", "dbca"]);
  // What is not known stands last, either way.
  assert.deepEqual([names("mean", true), names("mean", false)], ["cabd", "acbd"]);
  assert.deepEqual([names("name", false), names("name", true)], ["abcd", "dcba"]);
  // Rows are shown with their groups ahead.
  assert.deepEqual([names("lane", false), names("lane", true)], ["adcb", "bcda"]);
  assert.equal(lines.map(({ name }) => name).join(""), "bacd");
});

// Finding -------------------------------------------------------------------------------------------------------------

test("a search names ranges by words of group, lane and name", () => {
  const found = (query) => sought(head, query)?.flatMap((one, code) => (one ? [code] : []));
  assert.equal(sought(head, " \t"), null);
  assert.deepEqual(found("far"), [0, 3]);
  assert.deepEqual(found("FAR  b"), [0]);
  assert.deepEqual(found("a / x"), [3]);
  assert.deepEqual(found("inner outer"), []);
  assert.deepEqual(found(".*"), []);
  const odd = { lanes: [["É", "<b>", 0]], ranges: [[0, "数 & =", 0]] };
  assert.deepEqual(["é", "<B> 数", "&"].map((query) => sought(odd, query)), [[true], [true], [true]]);
});

test("ranges that are alike have lane and name in common", () => {
  assert.deepEqual(alike(head, 1), [false, true, false, false, true]);
  assert.deepEqual(alike(head, 0), [true, false, false, false, false]);
});

test("occurrences come by their begins", () => {
  const events = slicesOf([[0, 50, 60], [1, 10, 20], [0, 5, 9], [3, 5, 6], [0, 5, 30]]);
  assert.deepEqual([...occurrences(events, [true, false, false, true, false])], [2, 3, 4, 0]);
  assert.deepEqual([...occurrences(events, [false, false, false, false, false])], []);
});

test("from one occurrence to the next, and round", () => {
  const start = [50, 10, 5, 70, 30];
  const found = Int32Array.from([2, 4, 0]); // begins 5, 30, 50
  const next = (slice, at) => following(found, slice, at, start, 1);
  const before = (slice, at) => following(found, slice, at, start, -1);
  assert.deepEqual([next(2, 0), next(4, 0), next(0, 0)], [4, 0, 2]);
  assert.deepEqual([before(2, 0), before(4, 0), before(0, 0)], [0, 2, 4]);
  // From a moment: what begins there is next.
  assert.deepEqual([-9, 5, 6, 30, 51].map((at) => next(-1, at)), [2, 2, 4, 4, 2]);
  assert.deepEqual([-9, 5, 6, 30, 51].map((at) => before(-1, at)), [0, 0, 2, 2, 0]);
  // From a slice that is not one of them, whatever is in view.
  assert.deepEqual([next(1, 999), next(3, 0), before(1, 999), before(3, 0)], [4, 2, 2, 0]);
  assert.equal(following(Int32Array.from([]), 1, 0, start, 1), -1);
});

// Hash ----------------------------------------------------------------------------------------------------------------

const HOSTILE = ["a&b=c#d%25%", "é数 🚀", "<img src=x onerror=alert(1)>", "+ plus", "line\nbreak", "", "→", "%E0%A4%A"];

test("a state comes back from its hash", () => {
  const full = {
    view: "gpu", cta: 1023, span: [-40, 1234.5], selection: [0, 0.1], ruler: [7, 7], slice: 0, unit: "gpu",
    find: HOSTILE.join(" "), payloads: true, map: [0, 12000], mapRuler: [3, 3], colour: HOSTILE[2], hidden: HOSTILE,
    arrows: HOSTILE.map((name) => `${name}→x`),
  };
  for (const state of [initial(), full, { ...initial(), cta: 0, unit: "ns", ruler: [-5, 900_000_000_000] }]) {
    const text = formatHash(state);
    assert.match(text, /^[\x21-\x7e]*$/); // nothing that an address cannot hold
    assert.ok(!text.includes("#"));
    assert.deepEqual(parseHash(`#${text}`), { state, wrong: [] });
    assert.deepEqual(parseHash(text), parseHash(`#${text}`));
  }
  assert.equal(formatHash(initial()), "");
  assert.equal(formatHash({ ...initial(), cta: 3, span: [10.04, 20.06] }), "cta=3&span=10_20.1");
});

test("any state comes back", () => {
  const next = random(11);
  const tenth = () => (Math.round(next() * 1e6) - 50000) / 10;
  const pair = () => {
    const [a, b] = [tenth(), tenth()].sort((one, other) => one - other);
    return next() < 0.3 || a === b ? null : [a, b];
  };
  const some = () => HOSTILE.filter(() => next() < 0.4);
  for (let i = 0; i < 300; i += 1) {
    const state = {
      view: next() < 0.5 ? "cta" : "gpu", cta: Math.floor(next() * 1e6), span: pair(), selection: pair(), ruler: pair(),
      slice: next() < 0.5 ? null : Math.floor(next() * 1e4), unit: UNITS[Math.floor(next() * 3)][0],
      find: some().join("/"), payloads: next() < 0.5, map: pair(), mapRuler: pair(), colour: some().join("/"),
      hidden: some(), arrows: some(),
    };
    assert.deepEqual(parseHash(formatHash(state)), { state, wrong: [] });
  }
});

test("the parts of a hash that say nothing are named, and change nothing", () => {
  for (const part of [
    "cta=-1", "cta=1.5", "cta=", "cta=1e3", "cta=9999999999999999", "slice=x", "view=map", "unit=s", "labels=no",
    "span=5", "span=5_5", "span=1_2_3", "span=a_b", "span=NaN_1", "span=1_Infinity", `span=1_${"9".repeat(400)}`,
    "span=1e3_2e3", "selection=7_7", "map=5_5", "map-ruler=x", "mapRuler=1_2", "colour=", "__proto__=1", "constructor=x", "toString=", "x=", "CTA=1",
  ]) {
    const { state, wrong } = parseHash(`#${part}`);
    assert.deepEqual(state, initial(), part);
    assert.deepEqual(wrong, [part]);
  }
  const { state, wrong } = parseHash("#cta=7&nonsense&span=9_3&unit=ns&unit=weeks&%");
  assert.deepEqual([state.cta, state.span, state.unit], [7, [3, 9], "ns"]);
  assert.deepEqual(wrong, ["nonsense=", "unit=weeks", "%="]);
});

test("no text breaks the reading of a hash", () => {
  const next = random(5);
  const letters = "#&=%_.-+/<>\"'\\0159abctspanruleh→数\ud800\u0000 ";
  for (let i = 0; i < 2000; i += 1) {
    const text = Array.from({ length: Math.floor(next() * 30) }, () => letters[Math.floor(next() * letters.length)]);
    const { state } = parseHash(text.join(""));
    for (const key of ["span", "selection", "ruler"]) assert.ok(state[key] === null || state[key].every(Number.isFinite));
    assert.deepEqual(parseHash(formatHash(state)).state, state);
  }
});

// Units ---------------------------------------------------------------------------------------------------------------

test("a unit shows moments and spans of a CTA", () => {
  const cta = { ghz: 1.6, beginNs: 1000 };
  const [cycles, ns, gpu] = ["cycles", "ns", "gpu"].map((key) => unitOf(key, cta));
  assert.deepEqual(UNITS.map(([key]) => key), ["cycles", "ns", "gpu"]);
  assert.equal(cycles, CYCLES);
  assert.deepEqual([cycles, ns, gpu].map((unit) => moment(unit, 3200)), ["3,200 cycles", "2,000.0 ns", "3,000.0 ns"]);
  // A span does not begin anywhere.
  assert.deepEqual([cycles, ns, gpu].map((unit) => length(unit, 3200)), ["3,200 cycles", "2,000.0 ns", "2,000.0 ns"]);
  assert.deepEqual([cycles, ns, gpu].map((unit) => bare(unit, -1)), ["−1", "−0.6", "−0.6"]);
  assert.equal(bare(ns, NaN), "–");
  assert.deepEqual([ns.key, gpu.key, ns.title === gpu.title], ["ns", "gpu", false]);
  assert.equal(gpu.title, NANOSECONDS.title);
  assert.equal(moment(NANOSECONDS, 12.34), "12.3 ns");
});

test("without a clock, or a place on the GPU's axis, a CTA is shown in cycles", () => {
  const key = (wanted, ghz, beginNs) => unitOf(wanted, { ghz, beginNs }).key;
  assert.deepEqual([key("ns", NaN, 5), key("gpu", NaN, 5), key("gpu", 1.5, NaN)], ["cycles", "cycles", "cycles"]);
  assert.deepEqual([key("ns", 1.5, NaN), key("nonsense", 1.5, 5)], ["ns", "cycles"]);
});

// Choosing ------------------------------------------------------------------------------------------------------------

test("the fastest, the median and the slowest of those that finished", () => {
  const cycles = [50, 10, 0, 30, 90, 40, 30];
  const finished = [1, 1, 0, 1, 1, 1, 1];
  const at = (fraction) => ranked(cycles, finished, fraction);
  // 10, 30, 30, 40, 50, 90: the lower of the two in the middle, and of two that are equal the first.
  assert.deepEqual([at(0), at(0.5), at(1)], [1, 6, 4]);
  assert.equal(ranked([5, 5], [1, 1], 1), 1);
  assert.equal(ranked([5, 5], [0, 0], 0), -1);
  assert.equal(ranked([], [], 0.5), -1);
  const next = random(3);
  for (let count = 1; count < 40; count += 1) {
    const values = Array.from({ length: count }, () => Math.floor(next() * 20));
    const order = [...values].sort((a, b) => a - b);
    const found = [0, 0.5, 1].map((fraction) => values[ranked(values, values.map(() => 1), fraction)]);
    assert.deepEqual(found, [order[0], order[Math.floor((count - 1) / 2)], order[count - 1]]);
  }
});

// The ruler -----------------------------------------------------------------------------------------------------------

test("edges attract what is set near them", () => {
  const events = slicesOf([[1, 0, 100], [2, 12, 40], [3, 104, 140], [0, 200, 203]]);
  events.instants = { count: 1, mark: [0], time: [60] };
  const { rows } = layOut(head.lanes, false);
  const scene = new Scene(head, events, rows, { names: new Set(), edges: new Set() });
  const at = (x, y, scale = 1) => scene.edgeNear(x, y, (cycles) => scale * cycles);
  const middle = (slice) => scene.sliceTop[slice] + BAR / 2;
  assert.deepEqual([at(3, middle(0)), at(95, middle(0)), at(107, middle(0))], [0, 100, 100]);
  // Of the row that is pointed at, though another row's edge is nearer.
  assert.equal(at(103, middle(0)), 100);
  assert.equal(at(103, middle(2)), 104);
  assert.equal(at(8, middle(1)), 12);
  // Where that row has none, any row's.
  assert.equal(at(198, middle(0)), 200);
  assert.equal(at(99, 9999), 100);
  assert.equal(at(201.6, middle(3)), 203);
  assert.deepEqual([at(61, scene.markTop[0] - 3), at(61, middle(3))], [60, 60]);
  assert.deepEqual([at(80, middle(0)), at(50, middle(1)), at(170, 9999)], [null, null, null]);
  // Distances are those on the screen.
  assert.deepEqual([at(9, middle(0), 0.1), at(45, middle(1), 3), at(27, middle(1), 3)], [100, null, null]);
  const hidden = new Scene(head, events, rows, { names: new Set(["far", "tick"]), edges: new Set() });
  assert.equal(hidden.edgeNear(201, middle(0), (cycles) => cycles), null);
  assert.equal(hidden.edgeNear(61, middle(0), (cycles) => cycles), null);
});
