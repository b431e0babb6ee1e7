// Reads what pack.py wrote. Columns stay typed arrays; a CTA's events are cut out when it is looked at, not before.

const VERSION = 1;

const TYPES = {
  u1: Uint8Array,
  i1: Int8Array,
  u2: Uint16Array,
  i2: Int16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f8: Float64Array,
};

/**
 * What pack.py says of the columns, and of the launch.
 * @typedef {object} Head
 * @property {number} version
 * @property {string} title
 * @property {number[]} grid extents along x, y and z
 * @property {[string, string, number][]} lanes group, lane and greatest depth: the figure's rows
 * @property {[number, string, number][]} ranges lane, name and depth of each that occurs
 * @property {[number, string][]} marks lane and name of each instant that occurs
 * @property {[string, string][]} edges source and destination of each kind of arrow
 * @property {string[]} rowGroups
 * @property {number | null} axisError in nanoseconds
 * @property {string[]} neverFired
 * @property {string[]} told sentences on what tracing cost
 * @property {Record<string, any>} meta
 * @property {[string, string, number][]} columns name, type and length, in the block's order
 */

/**
 * @typedef {object} Cta
 * @property {number} position in the order of the tabs
 * @property {number} number linear
 * @property {number[]} block x, y and z
 * @property {number} sm
 * @property {number} beginNs
 * @property {number} endNs
 * @property {number} cycles
 * @property {number} ghz
 * @property {number} recorded
 * @property {number} dropped
 * @property {boolean} finished
 */

/**
 * @typedef {object} Events
 * @property {{count: number, range: ArrayLike<number>, start: Float64Array, duration: ArrayLike<number>,
 *   cut: ArrayLike<number>, payload: ArrayLike<number>, kind: ArrayLike<number>}} slices
 * @property {{count: number, mark: ArrayLike<number>, time: Float64Array, payload: ArrayLike<number>,
 *   kind: ArrayLike<number>}} instants
 * @property {{count: number, edge: ArrayLike<number>, occurrence: Float64Array, src: Float64Array, dst: Float64Array,
 *   start: Float64Array, end: Float64Array}} flows
 * @property {{group: string, recorded: number, dropped: number, finished: boolean}[]} rows
 */

/**
 * Unpacks the page's data.
 * @param {Head} head
 * @param {string} text the block, base64
 */
export async function unpack(head, text) {
  if (head.version !== VERSION) throw new Error(`the page's data is of version ${head.version}, not ${VERSION}`);
  const deflated = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Recording(head, await new Response(stream).arrayBuffer());
}

export class Recording {
  /**
   * @param {Head} head
   * @param {ArrayBuffer} block
   */
  constructor(head, block) {
    this.head = head;
    /** @type {Record<string, any>} */
    this.columns = {};
    let offset = 0;
    for (const [name, type, length] of head.columns) {
      const column = new TYPES[/** @type {keyof typeof TYPES} */ (type)](block, offset, length);
      this.columns[name] = column;
      offset += column.byteLength;
    }
    this.count = this.columns.cta_cta.length;
    this._firsts = Object.fromEntries(
      ["slices", "instants", "flows", "rows"].map((what) => [what, sums(this.columns[`cta_${what}`])]),
    );
  }

  /**
   * @param {number} position
   * @returns {Cta}
   */
  cta(position) {
    const column = (/** @type {string} */ name) => this.columns[`cta_${name}`][position];
    return {
      position,
      number: column("cta"),
      block: [column("x"), column("y"), column("z")],
      sm: column("sm"),
      beginNs: column("begin_ns"),
      endNs: column("end_ns"),
      cycles: column("cycles"),
      ghz: column("ghz"),
      recorded: column("recorded"),
      dropped: column("dropped"),
      finished: column("finished") !== 0,
    };
  }

  /**
   * The events of one CTA.
   * @param {number} position
   * @returns {Events}
   */
  events(position) {
    const part = (/** @type {string} */ what, /** @type {string} */ name) => {
      const firsts = this._firsts[what];
      return this.columns[name].subarray(firsts[position], firsts[position + 1]);
    };
    const range = part("slices", "slice_range");
    const duration = part("slices", "slice_duration");
    const start = running(part("slices", "slice_start"));
    const src = running(part("flows", "flow_src"));
    const dst = running(part("flows", "flow_dst"));
    const group = part("rows", "row_group");
    return {
      slices: {
        count: range.length,
        range,
        start,
        duration,
        cut: part("slices", "slice_cut"),
        payload: part("slices", "slice_payload"),
        kind: part("slices", "slice_payload_kind"),
      },
      instants: {
        count: part("instants", "instant_mark").length,
        mark: part("instants", "instant_mark"),
        time: running(part("instants", "instant_time")),
        payload: part("instants", "instant_payload"),
        kind: part("instants", "instant_payload_kind"),
      },
      flows: {
        count: src.length,
        edge: part("flows", "flow_edge"),
        occurrence: running(part("flows", "flow_occurrence")),
        src,
        dst,
        start: Float64Array.from(part("flows", "flow_start"), (value, i) => value + start[src[i]] + duration[src[i]]),
        end: Float64Array.from(part("flows", "flow_end"), (value, i) => value + start[dst[i]] + duration[dst[i]]),
      },
      rows: Array.from(group, (code, i) => ({
        group: this.head.rowGroups[code],
        recorded: part("rows", "row_recorded")[i],
        dropped: part("rows", "row_dropped")[i],
        finished: part("rows", "row_finished")[i] !== 0,
      })),
    };
  }

  /** Sum of a column over all CTAs. @param {string} name */
  total(name) {
    return this.columns[`cta_${name}`].reduce((/** @type {number} */ sum, /** @type {number} */ v) => sum + v, 0);
  }
}

/** Before each value, the sum of those ahead of it; one entry more than values. @param {ArrayLike<number>} values */
function sums(values) {
  const result = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i += 1) result[i + 1] = result[i] + values[i];
  return result;
}

/** Each value added to those before it. @param {ArrayLike<number>} differences */
function running(differences) {
  const result = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < differences.length; i += 1) {
    sum += differences[i];
    result[i] = sum;
  }
  return result;
}
