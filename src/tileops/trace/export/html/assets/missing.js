// Runs behind a library that is not in the page itself, and ahead of the page: says what is missing if it did not come.

if (typeof window.Plotly === "undefined") {
  const missing = document.getElementById("missing");
  document.getElementById("alerts").append(missing);
  missing.hidden = false;
  // The page's own script, further down, would only fail.
  window.stop();
}
