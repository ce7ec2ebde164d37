// One chosen head for the whole page: every picture marks it, and the card tells of it.

const data = JSON.parse(document.getElementById("report-data").textContent);
const at = (id) => document.getElementById(id);
const DIGITS = 3, ERROR_DIGITS = 2;

/** Write a number with some significant digits, and all that stand before its point. */
function shown(value, digits = DIGITS) {
  return String(Math.abs(value) >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits)));
}

/** Make an element with text; nothing here is ever read as HTML. */
function made(tag, text, attributes = {}) {
  const found = document.createElement(tag);
  if (text !== null) found.textContent = text;
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  return found;
}

// Heads and their marks.

const marks = data.heads.map(() => []);
const keyOf = (head) => JSON.stringify(head);
const placeOf = new Map(data.heads.map((head, place) => [keyOf(head), place]));
const hashOf = (place) => `#head=${[...data.heads[place]].filter((part) => part !== "").join(".")}`;

function placeInHash() {
  const found = /^#head=(?:([a-z]+)\.)?(\d+)\.(\d+)$/.exec(location.hash);
  return found ? placeOf.get(keyOf([found[1] ?? "", Number(found[2]), Number(found[3])])) : undefined;
}

function collect(root) {
  for (const mark of root.querySelectorAll("[data-h]")) {
    const place = Number(mark.dataset.h);
    marks[place].push(mark);
    if (place === chosen) mark.setAttribute("aria-current", "true");
  }
}

/** Forget a mark that leaves the page. */
function forget(mark) {
  const mine = marks[Number(mark.dataset.h)];
  mine.splice(mine.indexOf(mark), 1);
}

let chosen = -1;
collect(document);
const grids = [...document.querySelectorAll("[data-grid]")];
for (const grid of grids) // a grid is one stop of the tab key, and arrows lead on
  for (const mark of grid.querySelectorAll("[data-h]")) {
    mark.setAttribute("role", "button");
    mark.setAttribute("tabindex", "-1");
  }

function choose(place, { hash = true } = {}) {
  if (place === chosen || !data.heads[place]) return;
  for (const mark of marks[chosen] ?? []) mark.removeAttribute("aria-current");
  for (const grid of grids) grid.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
  chosen = place;
  for (const mark of marks[place]) {
    mark.setAttribute("aria-current", "true");
    if (mark.closest("[data-grid]")) mark.setAttribute("tabindex", "0");
  }
  for (const grid of grids) // a grid without this head is entered at its first
    if (!grid.querySelector("[tabindex='0']")) grid.querySelector("[data-h]")?.setAttribute("tabindex", "0");
  fillCard(place);
  if (hash) history.replaceState(null, "", hashOf(place));
  document.documentElement.dataset.chosen = String(place);
}

document.addEventListener("click", (event) => {
  const mark = event.target.closest("[data-h]");
  if (mark) choose(Number(mark.dataset.h));
});
document.addEventListener("mouseover", (event) => {
  const mark = event.target.closest("[data-grid] [data-h]");
  if (!mark || mark.firstChild) return;
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = mark.getAttribute("aria-label");
  mark.append(title);
});
window.addEventListener("hashchange", () => {
  const place = placeInHash();
  if (place !== undefined) choose(place, { hash: false });
});

/** Find the mark that an arrow leads to: the next one in that direction. */
function nextMark(mark, key) {
  const grid = mark.closest("[data-grid]");
  const here = mark.getBoundingClientRect();
  const x = here.left + here.width / 2, y = here.top + here.height / 2;
  const across = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  let best = null, least = Infinity;
  for (const other of grid.querySelectorAll("[data-h]")) {
    if (other === mark) continue;
    const there = other.getBoundingClientRect();
    const right = there.left + there.width / 2 - x, down = there.top + there.height / 2 - y;
    const along = sign * (across ? right : down), beside = Math.abs(across ? down : right);
    if (along > 0.5 && along + 3 * beside < least && beside <= 2 * along + 1) {
      least = along + 3 * beside;
      best = other;
    }
  }
  return best;
}

document.addEventListener("keydown", (event) => {
  const mark = event.target.closest?.("[data-grid] [data-h]");
  if (!mark) return;
  if (event.key.startsWith("Arrow")) {
    const next = nextMark(mark, event.key);
    if (next) {
      choose(Number(next.dataset.h));
      next.focus();
    }
    event.preventDefault();
  } else if ((event.key === "Enter" || event.key === " ")) {
    choose(Number(mark.dataset.h));
    event.preventDefault();
  }
});

// The card.

const rows = new Map([...document.querySelectorAll(".numbers tr[data-m]")].map((row) => [Number(row.dataset.m), {
  value: row.querySelector(".value"), rank: row.querySelector(".rank"),
}]));

function fillCard(place) {
  at("head-title").textContent = data.names[place].replace(/^./, (letter) => letter.toUpperCase());
  at("choose").value = String(place);
  at("here").href = hashOf(place);
  data.measures.forEach(({ numbers, ranks }, number) => {
    const { value, rank } = rows.get(number);
    value.textContent = numbers[place];
    rank.textContent = ranks[place] === null ? "" : `${ranks[place]} of ${ranks.filter((one) => one !== null).length}`;
  });
  if (data.roles) at("role").textContent = data.roles[place];
  sentences.forEach((one) => one.show(place));
}

at("choose")?.addEventListener("change", (event) => choose(Number(event.target.value)));
at("before")?.addEventListener("click", () => choose((chosen + data.heads.length - 1) % data.heads.length));
at("after")?.addEventListener("click", () => choose((chosen + 1) % data.heads.length));

// What it looks at.

const ROW = 20, LEAST = 0.02;

class Sentence {
  constructor(figure, { kinds }) {
    this.kinds = kinds;
    this.kept = {};
    this.from = figure.querySelector(".from");
    this.to = figure.querySelector(".to");
    this.svg = figure.querySelector("svg");
    this.strongest = figure.querySelector(".strongest");
    this.readout = figure.querySelector(".readout");
    this.one = -1;
    this.from.addEventListener("click", (event) => this.pick(event.target.closest("button")));
    this.from.addEventListener("mouseover", (event) => this.peek(event.target.closest("button")));
    this.from.addEventListener("mouseleave", () => this.draw(this.one));
    this.from.addEventListener("keydown", (event) => this.walk(event));
  }

  async show(place) {
    const [kind, layer, head] = data.heads[place], about = this.kinds[kind];
    this.wanted = place;
    if (!about || !about.layers.includes(layer)) {
      this.rows = null;
      this.strongest.textContent = "This head did not read this sentence.";
      this.draw(-1);
      return;
    }
    this.kept[kind] ??= unpacked(at(about.packed).textContent);
    const bytes = await this.kept[kind];
    if (this.wanted !== place) return; // another head was chosen meanwhile
    const size = about.queries.length * about.keys.length, half = bytes.length / 2;
    const start = (about.layers.indexOf(layer) * about.heads + head) * size;
    this.rows = Array.from({ length: size }, (_, n) => ((bytes[start + n] << 8) | bytes[half + start + n]) / data.scale);
    if (this.about !== about) this.label(about);
    this.strongest.textContent = this.said();
    this.draw(this.one);
  }

  label(about) {
    this.about = about;
    this.one = -1;
    this.from.replaceChildren(...about.queries.map((token, n) => {
      const row = made("li", null), button = made("button", token, { type: "button", tabindex: n ? "-1" : "0", "aria-pressed": "false", "data-q": String(n) });
      row.append(button);
      return row;
    }));
    this.to.replaceChildren(...about.keys.map((token) => made("li", token)));
    const rows = Math.max(about.queries.length, about.keys.length);
    this.svg.setAttribute("viewBox", `0 0 100 ${ROW * rows}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.style.setProperty("--rows", rows); // each as high as a token, on paper too
  }

  /** Say the strongest links, each token once. */
  said() {
    const { queries, keys } = this.about, found = [];
    queries.forEach((query, q) => {
      let best = 0;
      keys.forEach((_, k) => { if (this.rows[q * keys.length + k] > this.rows[q * keys.length + best]) best = k; });
      found.push([this.rows[q * keys.length + best], `${query} \u2192 ${keys[best]}`]);
    });
    found.sort((a, b) => b[0] - a[0]);
    return `Strongest: ${found.slice(0, 3).map(([share, link]) => `${link} ${shown(share, 2)}`).join("; ")}.`;
  }

  draw(one) {
    this.svg.replaceChildren();
    for (const item of this.to.children) item.style.background = "";
    this.readout.textContent = "";
    if (!this.rows) return;
    const { queries, keys } = this.about, lines = new Map();
    queries.forEach((_, q) => {
      if (one >= 0 && q !== one) return;
      keys.forEach((_, k) => {
        const share = this.rows[q * keys.length + k];
        if (share < LEAST) return;
        const a = ROW * (q + 0.5), b = ROW * (k + 0.5);
        // Of all tokens at once, lines that are about as strong are drawn as one.
        const key = one >= 0 ? k : Math.round(share / LEAST), line = lines.get(key) ?? { share, path: "" };
        line.path += `M0 ${a}C50 ${a} 50 ${b} 100 ${b}`;
        lines.set(key, line);
        if (one >= 0) this.to.children[k].style.background = `color-mix(in srgb, var(--mark) ${Math.round(60 * share)}%, transparent)`;
      });
    });
    for (const { share, path } of [...lines.values()].sort((one, other) => one.share - other.share)) {
      const mark = document.createElementNS("http://www.w3.org/2000/svg", "path");
      mark.setAttribute("d", path);
      mark.setAttribute("stroke-width", String(0.6 + 2.4 * share));
      mark.setAttribute("stroke-opacity", String(Math.min(1, 0.08 + 0.92 * share)));
      this.svg.append(mark);
    }
    if (one >= 0) {
      const best = keys.map((key, k) => [this.rows[one * keys.length + k], key]).sort((a, b) => b[0] - a[0]).slice(0, 4);
      this.readout.textContent = `${queries[one]} looks at ${best.map(([share, key]) => `${key} ${shown(share, 2)}`).join(", ")}.`;
    }
  }

  peek(button) {
    if (button) this.draw(Number(button.dataset.q));
  }

  pick(button) {
    if (!button) return;
    const one = Number(button.dataset.q);
    this.one = this.one === one ? -1 : one;
    for (const other of this.from.querySelectorAll("button")) {
      const mine = Number(other.dataset.q);
      other.setAttribute("aria-pressed", String(mine === this.one));
      other.setAttribute("tabindex", mine === one ? "0" : "-1");
    }
    this.draw(this.one);
  }

  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], button = event.target.closest("button");
    const next = step && button && this.from.querySelector(`[data-q="${Number(button.dataset.q) + step}"]`);
    if (!step) return;
    event.preventDefault();
    if (!next) return;
    next.focus();
    if (this.one !== Number(next.dataset.q)) this.pick(next);
  }
}

const sentences = [...document.querySelectorAll(".sentence")].map(
  (figure) => new Sentence(figure, data.sentences[Number(figure.dataset.sentence)]));

if (data.heads.length) choose(placeInHash() ?? data.first, { hash: placeInHash() !== undefined });
