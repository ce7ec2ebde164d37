// One chosen head for the whole page: every picture marks it, the card tells of it, and tables name it.

const data = JSON.parse(find("report-data").textContent);
const DIGITS = 3, ERROR_DIGITS = 2, ROW = 20, LEAST = 0.02; // of numbers; pixels of a token; the least line

/** Write a number with some significant digits, and all that stand before its point. */
function write(value, digits = DIGITS) {
  return String(Math.abs(value) >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits)));
}

// Heads: an element with data-h is a mark of the head of that number.

const keyOf = (kind, layer, head) => JSON.stringify([kind, Number(layer), Number(head)]);
const places = new Map(data.heads.map((head, place) => [keyOf(...head), place]));
const addressOf = (place) => `#head=${data.heads[place].filter((part) => part !== "").join(".")}`;
const findMarks = (place) => document.querySelectorAll(`[data-h="${place}"]`);
const grids = [...document.querySelectorAll("[data-grid]")];
let chosen = -1;

/** Read the number of a head off the address; undefined where it names none. */
function readAddress() {
  const [, kind, layer, head] = /^#head=(?:([a-z]+)\.)?(\d+)\.(\d+)$/.exec(location.hash) ?? [];
  return places.get(keyOf(kind ?? "", layer, head));
}

/** Choose a head; each grid is one stop of the tab key, at this head or at its first. */
function choose(place, isNamed = true) {
  if (place === chosen || !data.heads[place]) return;
  for (const mark of findMarks(chosen)) mark.removeAttribute("aria-current");
  for (const mark of findMarks(place)) mark.setAttribute("aria-current", "true");
  for (const grid of grids) {
    grid.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    (grid.querySelector(`[data-h="${place}"]`) ?? grid.querySelector("[data-h]"))?.setAttribute("tabindex", "0");
  }
  chosen = place;
  fillCard();
  if (isNamed) history.replaceState(null, "", addressOf(place));
  document.documentElement.dataset.chosen = String(place);
}

/** Find the mark that an arrow leads to: the nearest one ahead, and not far aside. */
function findNext(mark, key) {
  const centre = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = centre(mark), isAcross = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  let next = null, least = Infinity;
  for (const other of mark.closest("[data-grid]").querySelectorAll("[data-h]")) {
    const [right, down] = centre(other).map((part, axis) => part - [x, y][axis]);
    const ahead = sign * (isAcross ? right : down), aside = Math.abs(isAcross ? down : right);
    if (ahead > 0.5 && ahead + 3 * aside < least && aside <= 2 * ahead + 1) {
      least = ahead + 3 * aside;
      next = other;
    }
  }
  return next;
}

for (const mark of document.querySelectorAll("[data-grid] [data-h]")) {
  mark.setAttribute("role", "button");
  mark.setAttribute("tabindex", "-1");
  mark.append(svg("title", {}, mark.getAttribute("aria-label")));
}
document.addEventListener("click", (event) => {
  const mark = event.target.closest("[data-h]");
  if (mark) choose(Number(mark.dataset.h));
});
document.addEventListener("keydown", (event) => {
  const mark = event.target.closest?.("[data-grid] [data-h]");
  if (!mark || !(event.key.startsWith("Arrow") || event.key === "Enter" || event.key === " ")) return;
  event.preventDefault();
  const next = event.key.startsWith("Arrow") ? findNext(mark, event.key) : mark;
  if (!next) return;
  choose(Number(next.dataset.h));
  next.focus();
});
addEventListener("hashchange", () => choose(readAddress(), false));

// The card of the chosen head.

function fillCard() {
  find("head-title").textContent = data.names[chosen].replace(/^./, (letter) => letter.toUpperCase());
  find("choose").value = String(chosen);
  find("here").href = addressOf(chosen);
  for (const row of document.querySelectorAll(".numbers tr[data-m]")) {
    const { numbers, ranks } = data.measures[Number(row.dataset.m)], ranked = ranks.filter((rank) => rank !== null).length;
    row.querySelector(".value").textContent = numbers[chosen];
    row.querySelector(".rank").textContent = ranks[chosen] === null ? "" : `${ranks[chosen]} of ${ranked}`;
  }
  if (data.roles) find("role").textContent = data.roles[chosen];
  for (const sentence of sentences) sentence.show();
}

find("choose")?.addEventListener("change", (event) => choose(Number(event.target.value)));
find("before")?.addEventListener("click", () => choose((chosen + data.heads.length - 1) % data.heads.length));
find("after")?.addEventListener("click", () => choose((chosen + 1) % data.heads.length));

// What it looks at: a sentence, with lines from each token to those that it attends to.

class Sentence {
  constructor(figure, kinds) {
    Object.assign(this, { kinds, unpacked: {}, token: -1 });
    for (const name of ["from", "to", "strongest", "readout"]) this[name] = figure.querySelector(`.${name}`);
    this.svg = figure.querySelector("svg");
  }

  /** Show what the chosen head looks at. */
  async show() {
    const place = chosen, [kind, layer, head] = data.heads[place], about = this.kinds[kind];
    const isThere = about?.layers.includes(layer);
    if (isThere) this.unpacked[kind] ??= unpack(find(about.packed).textContent);
    const bytes = await this.unpacked[kind];
    if (place !== chosen) return; // another head was chosen meanwhile
    if (!isThere) {
      this.rows = null;
      this.strongest.textContent = "This head did not read this sentence.";
      this.draw(-1);
      return;
    }
    const size = about.queries.length * about.keys.length;
    this.rows = readMap(bytes, (about.layers.indexOf(layer) * about.heads + head) * size, size, data.scale);
    if (this.about !== about) this.label(about);
    const best = about.queries.map((query, row) => [query, this.rank(row)[0]]).sort((a, b) => b[1].share - a[1].share);
    const links = best.slice(0, 3).map(([query, { key, share }]) => `${query} \u2192 ${key} ${write(share, 2)}`);
    this.strongest.textContent = `Strongest: ${links.join("; ")}.`;
    this.draw(this.token);
  }

  /** List what a token looks at, the strongest first. */
  rank(row) {
    const { keys } = this.about;
    const shares = keys.map((key, place) => ({ key, place, share: this.rows[row * keys.length + place] }));
    return shares.sort((a, b) => b.share - a.share);
  }

  /** Write the tokens on both sides; those that attend are buttons. */
  label(about) {
    Object.assign(this, { about, token: -1 });
    this.from.replaceChildren(...about.queries.map((token, row) => {
      const button = make("button", { type: "button", tabindex: row ? "-1" : "0", "aria-pressed": "false" }, token);
      button.addEventListener("click", () => this.pick(row));
      button.addEventListener("mouseenter", () => this.draw(row));
      button.addEventListener("mouseleave", () => this.draw(this.token));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = this.from.children[row + step]?.firstChild;
        next?.focus();
        if (next && this.token !== row + step) this.pick(row + step);
      });
      return make("li", {}, button);
    }));
    this.to.replaceChildren(...about.keys.map((token) => make("li", {}, token)));
    const rows = Math.max(about.queries.length, about.keys.length);
    this.svg.setAttribute("viewBox", `0 0 100 ${ROW * rows}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.style.setProperty("--rows", rows); // each as high as a token, on paper too
  }

  /** Choose a token to be seen alone; the same one again lets go of it. */
  pick(row) {
    this.token = this.token === row ? -1 : row;
    [...this.from.children].forEach(({ firstChild: button }, place) => {
      button.setAttribute("aria-pressed", String(place === this.token));
      button.tabIndex = place === row ? 0 : -1;
    });
    this.draw(this.token);
  }

  /** Draw the lines of a token, or of all; those that are about as strong are one path. */
  draw(token) {
    const paths = [], queries = this.rows ? this.about.queries : [];
    queries.forEach((_, row) => {
      for (const { place, share } of token < 0 || token === row ? this.rank(row) : []) {
        const start = ROW * (row + 0.5), end = ROW * (place + 0.5), shade = Math.round(share / LEAST);
        if (share >= LEAST) paths[shade] = `${paths[shade] ?? ""}M0 ${start}C50 ${start} 50 ${end} 100 ${end}`;
      }
    });
    this.svg.replaceChildren(...Object.entries(paths).map(([shade, d]) => svg("path", {
      d, "stroke-width": 0.6 + 2.4 * shade * LEAST, "stroke-opacity": Math.min(1, 0.08 + 0.92 * shade * LEAST),
    })));
    const best = !(token in queries) ? [] : this.rank(token).slice(0, 4).map(({ key, share }) => `${key} ${write(share, 2)}`);
    this.readout.textContent = best.length ? `${queries[token]} looks at ${best.join(", ")}.` : "";
  }
}

const sentences = [...document.querySelectorAll(".sentence")].map(
  (figure) => new Sentence(figure, data.sentences[Number(figure.dataset.sentence)]));

// Tables: filled when they are opened; their columns sort them.

/** Give a table as the text of its csv file. */
async function readText(number) {
  return new TextDecoder().decode(await unpack(find(`table-${number}`).textContent));
}

/** Read csv: a cell may be in quotes, in which a quote is doubled. */
function readLines(text) {
  const lines = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n)/g)) {
    lines.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end !== ",") lines.push([]);
  }
  return lines.slice(0, -1);
}

/** Show a table whose columns, of a name and a role, sort it; an empty cell is where nothing was measured. */
function showTable(place, columns, lines) {
  const areNumbers = columns.map(([, role], column) => !["text", "key"].includes(role)
    || lines.every((line) => line[column] === "" || Number.isFinite(Number(line[column]))));
  const [kind, layer, head] = ["attention", "layer", "head"].map((name) => columns.findIndex(([column]) => column === name));
  const status = make("p", { role: "status", class: "pale" }), body = make("tbody");
  let sorted = -1, isFalling = false;

  function makeRow(line) {
    const number = places.get(keyOf(line[kind] ?? "", line[layer] || NaN, line[head] || NaN));
    const cells = line.map((cell, column) => {
      const [, role] = columns[column], isRounded = areNumbers[column] && role !== "key" && cell !== "";
      const text = isRounded ? write(Number(cell), role === "error" ? ERROR_DIGITS : DIGITS) : cell;
      const isHead = number !== undefined && column === head;
      const inside = isHead ? make("button", { type: "button", "aria-label": `Choose ${data.names[number]}` }, text) : text;
      return make("td", { class: areNumbers[column] ? "number" : "" }, inside);
    });
    const current = number === chosen ? { "aria-current": "true" } : {};
    return make("tr", number === undefined ? {} : { "data-h": number, ...current }, ...cells);
  }

  function fill(order) {
    const shown = lines.slice(0, data.shown), rest = shown.length < lines.length ? `; the first ${shown.length} are shown` : "";
    body.replaceChildren(...shown.map(makeRow));
    status.textContent = `${order}${lines.length} ${lines.length === 1 ? "row" : "rows"}${rest}.`;
  }

  /** Sort by a column, numbers from the highest at first; once more turns it round. */
  function sort(column) {
    const isNumber = areNumbers[column];
    isFalling = column === sorted ? !isFalling : isNumber;
    sorted = column;
    lines.sort((line, other) => {
      const [a, b] = [line[column], other[column]];
      if (a === "" || b === "") return (a === "") - (b === ""); // what has no number comes last
      return (isFalling ? -1 : 1) * (isNumber ? a - b : a < b ? -1 : a > b ? 1 : 0);
    });
    heads.forEach((cell, which) =>
      cell.setAttribute("aria-sort", which !== column ? "none" : isFalling ? "descending" : "ascending"));
    fill(`Sorted by ${columns[column][0]}, ${isFalling ? "falling" : "rising"}. `);
  }

  const heads = columns.map(([name], column) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => sort(column));
    return make("th", { scope: "col", "aria-sort": "none", class: areNumbers[column] ? "number" : "" }, button);
  });
  const caption = "A name sorts by its column. Numbers are rounded here; the file has all digits.";
  const table = make("table", { class: "rows" },
    make("caption", { class: "unseen" }, caption), make("thead", {}, make("tr", {}, ...heads)), body);
  fill("");
  place.append(status, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": place.dataset.label }, table));
}

for (const details of document.querySelectorAll("details.table")) {
  const place = details.querySelector(".sortable"), number = Number(details.dataset.table);
  details.addEventListener("toggle", async () => {
    if (!details.open || !place || place.dataset.filled) return;
    place.dataset.filled = "1";
    showTable(place, data.tables[number].columns, readLines(await readText(number)).slice(1));
  });
  details.querySelector("[data-download]")?.addEventListener("click", async () =>
    offerFile(`${data.tables[number].name}.csv`, "text/csv", await readText(number)));
}

if (data.heads.length) choose(readAddress() ?? data.first, readAddress() !== undefined);
