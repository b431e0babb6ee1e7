// Colours of ranges: a name's colour follows from the name alone, so it is the same in every CTA and every file.

// 24 colours by farthest-point search in OKLab: the two closest are 0.058 apart for normal vision, protanopia,
// deuteranopia and tritanopia alike (Machado 2009, severity 1); 0.02 is what can just be told apart. Lightness 0.48 to
// 0.87 serves a white page and a dark one: contrast of 1.4 at least with the one, 2.4 with the other.
export const COLOURS = [
  "#9e2b5a", "#f38c8d", "#985c53", "#c65e0b", "#f5b076", "#c8900f", "#fccf47", "#685e23",
  "#b4b53d", "#7a8750", "#c3dfa8", "#76ac6a", "#1bf5d8", "#51cec7", "#3b8f93", "#9bd2fa",
  "#609afa", "#3d53b4", "#606d95", "#b6abf9", "#875ec4", "#a593b3", "#823993", "#bb6fcc",
];

// Found by search: gives each of tma, mma, wait, acquire, arrive, release, drain, prologue, epilogue, prefetch, load,
// store and copy a colour of its own, with what waits in warm colours. Another salt is another colour for every name.
const SALT = 952887;

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

/** @type {Map<string, string>} */
const known = new Map();

/** A name's colour. Asked for each bar of each frame, so it is worked out once a name. @param {string} name */
export function colourOf(name) {
  let colour = known.get(name);
  if (colour === undefined) {
    colour = COLOURS[colourIndex(name)];
    known.set(name, colour);
  }
  return colour;
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

// Viridis, in ten steps: its lightness rises evenly, so that it reads the same to colour-blind people and in grey.
const VIRIDIS = [
  "#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
];
// From least to most, away from the page: for each theme the part that contrasts by 1.45 at least with what lies
// behind it.
const RAMPS = { light: [0.8, 0], dark: [0.25, 1] };
const SHADES = 64;

/**
 * The colours of a scale, from least to most.
 * @param {boolean} dark
 * @returns {string[]} "#rrggbb"
 */
export function shades(dark) {
  const [from, to] = RAMPS[dark ? "dark" : "light"];
  return Array.from({ length: SHADES }, (_, i) => {
    const along = (from + ((to - from) * i) / (SHADES - 1)) * (VIRIDIS.length - 1);
    const step = Math.min(Math.floor(along), VIRIDIS.length - 2);
    const mixed = [1, 3, 5].map((at) => {
      const [one, other] = [step, step + 1].map((n) => parseInt(VIRIDIS[n].slice(at, at + 2), 16));
      return Math.round(one + (other - one) * (along - step));
    });
    return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  });
}
