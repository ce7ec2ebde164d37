// Tables: filled when they are opened; their columns sort them.

const texts = new Map();

/** Give a table as the text of its csv file. */
function csvOf(number) {
  if (!texts.has(number))
    texts.set(number, unpacked(at(`table-${number}`).textContent).then((bytes) => new TextDecoder().decode(bytes)));
  return texts.get(number);
}

/** Read csv: cells may be in quotes, in which a quote is doubled. */
function cellsOf(text) {
  const found = [];
  let row = [], cell = "", quoted = false;
  for (let n = 0; n < text.length; n++) {
    const sign = text[n];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[n + 1] === '"') cell += text[++n];
      else quoted = false;
    } else if (sign === '"') quoted = true;
    else if (sign === "," || sign === "\n") {
      row.push(cell);
      cell = "";
      if (sign === "\n") {
        found.push(row);
        row = [];
      }
    } else if (sign !== "\r") cell += sign;
  }
  return found;
}

/** A table whose columns sort it. */
class SortedTable {
  /** Columns have a name and a role; a cell is a string, empty where nothing was measured. */
  constructor(place, columns, lines) {
    Object.assign(this, { columns, lines, rows: lines, by: -1, down: false });
    this.names = columns.map(({ name }) => name);
    this.isNumber = columns.map(({ role }, n) => (role !== "text" && role !== "key")
      || lines.every((line) => line[n] === "" || Number.isFinite(Number(line[n]))));
    this.places = ["attention", "layer", "head"].map((name) => this.names.indexOf(name));
    this.status = made("span", null, { role: "status", class: "pale" });
    const box = made("p", null, { class: "controls" });
    box.append(this.status);
    this.table = made("table", null, { class: "rows" });
    this.table.append(
      made("caption", "A name sorts by its column. Numbers are rounded here; the file has all digits.", { class: "unseen" }),
      made("thead", null), made("tbody", null));
    this.heads = columns.map(({ name }, n) => {
      const head = made("th", null, { scope: "col", "aria-sort": "none", class: this.isNumber[n] ? "number" : "" });
      const button = made("button", name, { type: "button" });
      button.addEventListener("click", () => this.sort(n));
      head.append(button);
      return head;
    });
    const row = made("tr", null);
    row.append(...this.heads);
    this.table.tHead.append(row);
    const scroll = made("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": place.dataset.label });
    scroll.append(this.table);
    place.append(box, scroll);
    this.draw();
  }

  /** Sort by a column, numbers from the highest at first; once more turns it round. */
  sort(by, down = by === this.by ? !this.down : this.isNumber[by]) {
    Object.assign(this, { by, down });
    const number = this.isNumber[by], sign = down ? -1 : 1;
    this.rows = [...this.lines].sort((one, other) => {
      const [a, b] = [one[by], other[by]];
      if (a === "" || b === "") return (a === "") - (b === ""); // what has no number comes last
      return sign * (number ? a - b : a < b ? -1 : a > b ? 1 : 0);
    });
    this.heads.forEach((head, n) => head.setAttribute("aria-sort", n !== by ? "none" : down ? "descending" : "ascending"));
    this.draw();
    const order = number ? `${down ? "highest" : "lowest"} first` : down ? "from z to a" : "from a to z";
    this.status.textContent = `Sorted by ${this.names[by]}, ${order}. ${this.status.textContent}`;
  }

  draw() {
    const shown = this.rows.slice(0, data.shown);
    const body = made("tbody", null);
    body.append(...shown.map((line) => this.row(line)));
    for (const mark of this.table.tBodies[0].querySelectorAll("[data-h]")) forget(mark);
    this.table.tBodies[0].replaceWith(body);
    collect(body);
    const all = this.lines.length, rest = shown.length < all ? `; the first ${shown.length} are shown` : "";
    this.status.textContent = `${all} ${all === 1 ? "row" : "rows"}${rest}.`;
  }

  row(line) {
    const row = made("tr", null), [kind, layer, which] = this.places.map((n) => (n < 0 ? "" : line[n]));
    const found = layer === "" || which === "" ? undefined : placeOf.get(keyOf([kind, Number(layer), Number(which)]));
    if (found !== undefined) row.dataset.h = String(found);
    line.forEach((cell, n) => {
      const { role } = this.columns[n], isRounded = this.isNumber[n] && role !== "key" && cell !== "";
      const written = isRounded ? shown(Number(cell), role === "error" ? ERROR_DIGITS : DIGITS) : cell;
      const box = made("td", null, { class: this.isNumber[n] ? "number" : "" });
      if (found !== undefined && n === this.places[2])
        box.append(made("button", written, { type: "button", "aria-label": `Choose ${data.names[found]}` }));
      else box.textContent = written;
      row.append(box);
    });
    return row;
  }
}

async function fillTable(details) {
  const place = details.querySelector(".sortable");
  if (!place || place.dataset.filled) return;
  place.dataset.filled = "1";
  const number = Number(details.dataset.table), [, ...lines] = cellsOf(await csvOf(number));
  new SortedTable(place, data.tables[number].columns, lines);
}

for (const details of document.querySelectorAll("details.table"))
  details.addEventListener("toggle", () => { if (details.open) fillTable(details); });

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-download]");
  if (!button) return;
  const number = Number(button.dataset.download);
  const address = URL.createObjectURL(new Blob([await csvOf(number)], { type: "text/csv" }));
  const link = made("a", null, { href: address, download: `${data.tables[number].name}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
});
