// Runs behind a library that is not in the page itself, and ahead of the page: says what is missing if it did not come.

if (typeof (/** @type {any} */ (window).Plotly) === "undefined") {
  const missing = /** @type {any} */ (document.getElementById("missing"));
  /** @type {any} */ (document.getElementById("alerts")).append(missing);
  missing.hidden = false;
  for (const empty of /** @type {any} */ (document.querySelectorAll("body > :is(nav, main, footer)"))) {
    empty.hidden = true;
  }
  // The page's own script, further down, would only fail.
  window.stop();
}
