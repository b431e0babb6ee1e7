// Elements of the page. Every text of the recording goes in as text, through textContent, and never as HTML.

import { shown } from "./format.js";

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * An element with a class and children; strings become text.
 * @param {string} tag
 * @param {string} [className]
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** A name of the recording's: kept apart from the text around it, whatever its direction. @param {string} text */
export function named(text) {
  const element = make("bdi", "name", shown(text));
  element.title = shown(text);
  return element;
}

/** @param {HTMLElement} list @param {[string, string | Node, string?][]} facts title, value and class */
export function fillFacts(list, facts) {
  list.replaceChildren(
    ...facts.map(([title, value, className]) =>
      make("div", className || "", make("dt", "", title), make("dd", "", value)),
    ),
  );
}

/** @param {HTMLElement} place @param {[string, string, (string | Node)[]?][]} alerts class, text and details */
export function fillAlerts(place, alerts) {
  place.replaceChildren(
    ...alerts.map(([className, text, details]) => {
      if (!details) return make("p", `alert ${className}`, text);
      const list = make("ul", "", ...details.map((detail) => make("li", "", detail)));
      return make("details", `alert ${className}`, make("summary", "", text), list);
    }),
  );
}
