// Colours of ranges: a name's colour follows from the name alone, so it is the same in every CTA and every file.

// 16 colours by farthest-point search in OKLab: the two closest are 0.07 apart, seen with normal vision, protanopia,
// deuteranopia or tritanopia (Machado 2009, severity 1). Lightness 0.52 to 0.84 keeps all of them clear of a white page and
// of a dark one.
export const COLOURS = [
  "#a83f59", "#ca8a95", "#cb7227", "#fcb452", "#906606", "#aea85f", "#698b68", "#56d298",
  "#a7d6ce", "#1f7681", "#4eadc4", "#4987d9", "#a195f7", "#7154af", "#dcaff8", "#b265b0",
];

// Of the salts that give tma, mma, wait, arrive, acquire, epilogue and drain a colour each, the first that also keeps
// copy, load, store, wgmma, release and compute apart, and paints what waits in the warm colours.
const SALT = 8370640;

const encoder = new TextEncoder();

/**
 * The number of a name's colour: FNV-1a over its UTF-8 bytes, with a final mix, since FNV's low bits alone are poor.
 * @param {string} name
 * @returns {number} index into COLOURS
 */
export function colourIndex(name) {
  let hash = (0x811c9dc5 ^ SALT) >>> 0;
  for (const byte of encoder.encode(name)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x7feb352d) >>> 0;
  hash ^= hash >>> 15;
  return (hash >>> 0) % COLOURS.length;
}

/** @param {string} name */
export function colourOf(name) {
  return COLOURS[colourIndex(name)];
}

/**
 * Black or white, whichever reads better on a colour (WCAG's contrast).
 * @param {string} colour "#rrggbb"
 */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 ? "#ffffff" : "#000000";
}
