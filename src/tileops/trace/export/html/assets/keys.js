// What keys do. One list: the keyboard reads it, and so does the help that "?" opens.

import { byId, make } from "./elements.js";

/**
 * @typedef {object} Binding
 * @property {string[]} keys as events name them
 * @property {string} shown
 * @property {string} does
 * @property {(key: string) => void} run
 */

/** Has a document listen. @param {Binding[]} bindings */
export function bind(bindings) {
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target instanceof Element && target.closest("input, select, textarea, [contenteditable], dialog")) return;
    const binding = bindings.find(({ keys }) => keys.includes(key));
    if (!binding) return;
    event.preventDefault();
    binding.run(key);
  });
}

/** Fills the help. @param {Binding[]} bindings */
export function fillHelp(bindings) {
  const rows = bindings.map(({ shown, does }) => {
    const keys = shown.split(" ").map((key) => make("kbd", "", key));
    return make("tr", "", make("th", "", ...keys), make("td", "", does));
  });
  byId("keys").replaceChildren(...rows);
}
