// Tables that sort by a click on a heading, and commands that are copied by one.

/** The figure that a cell's text stands for, in its smallest unit; null if it is no figure. */
const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, "%": 1 };

/** @param {string} text */
function figure(text) {
  const found = /^([+−-]?)([\d,]+(?:\.\d+)?)\s*(ns|µs|ms|s|B|KiB|MiB|GiB|TiB|%)?$/.exec(text.trim());
  if (found === null) {
    return null;
  }
  const value = Number(found[2].replaceAll(",", "")) * (found[3] ? UNITS[/** @type {"ns"} */ (found[3])] : 1);
  return found[1] === "" || found[1] === "+" ? value : -value;
}

/**
 * @param {string} one
 * @param {string} other
 * @param {boolean} down
 */
function compare(one, other, down) {
  const a = figure(one);
  const b = figure(other);
  if ((a === null) !== (b === null)) {
    // What is unknown comes last, whichever way the figures go.
    return a === null ? 1 : -1;
  }
  const order = a !== null && b !== null ? a - b : one.localeCompare(other);
  return down ? -order : order;
}

/** @param {HTMLTableCellElement} heading */
function sortBy(heading) {
  const table = /** @type {HTMLTableElement} */ (heading.closest("table"));
  const body = table.tBodies[0];
  const down = heading.getAttribute("aria-sort") !== "descending";
  for (const other of table.querySelectorAll("th[aria-sort]")) {
    other.removeAttribute("aria-sort");
  }
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const place = heading.cellIndex;
  const rows = [...body.rows].sort((one, other) =>
    compare(one.cells[place].textContent ?? "", other.cells[place].textContent ?? "", down),
  );
  body.append(...rows);
}

for (const heading of document.querySelectorAll("th.sortable")) {
  const cell = /** @type {HTMLTableCellElement} */ (heading);
  cell.tabIndex = 0;
  cell.addEventListener("click", () => sortBy(cell));
  cell.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      sortBy(cell);
    }
  });
}

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const command = button.parentElement?.querySelector("code")?.textContent ?? "";
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      // Where a page has no clipboard, the command is marked, so that a key copies it.
      const range = document.createRange();
      range.selectNodeContents(/** @type {Node} */ (button.parentElement?.querySelector("code")));
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
    }
  });
}
