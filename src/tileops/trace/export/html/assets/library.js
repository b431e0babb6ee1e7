// Has Plotly's script run. It lies inert in the page, or points to where it is.

import { byId } from "./elements.js";

/** Whether the library has come. If not, the page says what is missing, and shows nothing that would need it. */
export async function loadLibrary() {
  const script = byId("library").content.querySelector("script").cloneNode(true);
  const settled = new Promise((resolve) => (script.onload = script.onerror = resolve));
  document.body.append(script);
  if (script.src) await settled;
  if (typeof window.Plotly !== "undefined") return true;
  const missing = byId("missing");
  byId("alerts").append(missing);
  missing.hidden = false;
  for (const part of document.querySelectorAll("body > :is(nav, main, footer)")) part.setAttribute("hidden", "");
  return false;
}
