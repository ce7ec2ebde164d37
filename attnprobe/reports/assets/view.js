// The page: what is chosen, and what follows from it.

const held = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const chosen = { ...held.chosen };
const image = held.picture ? Object.assign(new Image(), { src: held.picture }) : null;
let seen = null, drawing = null, buttons = [], pressed = null, small = null, shown = null, turn = 0;

const kind = () => held.kinds[chosen.kind];
const sides = () => [held.sides[kind().queries], held.sides[kind().keys]];
const worded = () => sides().every((side) => side.words);
const rolled = (head) => head === kind().heads;
const nameOf = (layer, head) => {
  const place = `${held.kinds.length > 1 ? `${kind().name} ` : ""}layer ${kind().layers[layer]}`;
  return rolled(head) ? `Rollout up to ${place}` : `${place[0].toUpperCase()}${place.slice(1)}, head ${head}`;
};
const digits = (share) => share.toFixed(chosen.words ? 3 : 4);

/** Make an element of HTML; text is text, never markup. */
function make(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** Show which colour is how much. */
function drawScale() {
  find("scale")?.replaceChildren(...[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1].map((share) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    fillCanvas(canvas, 1, 1, () => share);
    return make("li", {}, canvas, String(share));
  }));
}

/** Give the small maps of what is shown; where words or special tokens make no difference, there is one set. */
function smallSet() {
  const sets = kind().small, plain = chosen.special ? "" : "-plain";
  const found = [`words${plain}`, "words", `tokens${plain}`, "tokens"].filter((name) => chosen.words || !name.startsWith("words"));
  return sets[found.find((name) => sets[name])];
}

/** Colour the small maps; at once, for a printer waits for nothing. */
function colourHeads() {
  if (!small) return;
  const [high, wide] = small.size;
  buttons.flat().forEach((button, place) => {
    if (button) fillCanvas(button.firstChild, wide, high, (cell) => (small.bytes[place * high * wide + cell] / 255) ** 2);
  });
}

/** Draw the small maps of a kind. */
async function drawHeads() {
  const now = kind(), mine = ++turn, { size, packed } = smallSet();
  const bytes = await unpacked(packed);
  if (mine !== turn) return;
  small = { size, bytes };
  if (shown !== now) layOut(now);
  shown = now;
  colourHeads();
  document.documentElement.dataset.heads = JSON.stringify([chosen.kind, chosen.words, chosen.special]);
}

/** Lay out a button for every head of a kind. */
function layOut(now) {
  const columns = now.heads + (now.rollout ? 1 : 0);
  const cell = Math.max(26, Math.min(56, Math.floor(440 / columns)));
  find("grid").style.setProperty("--cell", `${cell}px`);
  const head = make("tr", {}, make("td"));
  for (let place = 0; place < columns; place++)
    head.append(make("th", { scope: "col" }, rolled(place) ? "roll\u00adout" : String(place)));
  const body = make("tbody");
  buttons = now.layers.map((layer, row) => {
    const line = make("tr", {}, make("th", { scope: "row" }, String(layer)));
    const made = Array.from({ length: columns }, (_, place) => {
      if (now.removed.some(([l, h]) => l === row && h === place)) {
        line.append(make("td", { class: "removed", title: "removed" }));
        return null;
      }
      const canvas = make("canvas", { "aria-hidden": "true" });
      const button = make("button", {
        type: "button", title: nameOf(row, place), "aria-label": nameOf(row, place), "aria-pressed": "false", tabindex: "-1",
      }, canvas);
      button.addEventListener("click", () => choose({ layer: row, head: place }));
      button.addEventListener("keydown", (event) => move(event, row, place));
      line.append(make("td", {}, button));
      return button;
    });
    body.append(line);
    return made;
  });
  find("grid").replaceChildren(make("caption", { class: "unseen" }, "Layers from top to bottom, heads from left to right"), make("thead", {}, head), body);
  press();
}

/** Let the arrow keys go from head to head. */
function move(event, row, place) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  let [down, right] = [row + step[0], place + step[1]];
  while (buttons[down]?.[right] === null) { down += step[0]; right += step[1]; }
  if (!buttons[down]?.[right]) return;
  choose({ layer: down, head: right });
  buttons[down][right].focus();
}

/** Show which head is chosen. */
function press() {
  const button = buttons[chosen.layer]?.[chosen.head];
  if (button === pressed) return;
  pressed?.setAttribute("aria-pressed", "false");
  button?.setAttribute("aria-pressed", "true");
  if (pressed) pressed.tabIndex = -1;
  if (button) button.tabIndex = 0;
  pressed = button;
}

/** Change what is chosen, and show it. */
async function choose(changes) {
  const before = { ...chosen };
  Object.assign(chosen, changes);
  if (before.kind !== chosen.kind) {
    chosen.layer = Math.min(chosen.layer, kind().layers.length - 1);
    if (chosen.head >= kind().heads + (kind().rollout ? 1 : 0)) chosen.head = 0;
  }
  if (!worded()) chosen.words = false;
  const sameTokens = ["kind", "words", "special"].every((name) => before[name] === chosen[name]);
  if (!sameTokens) chosen.from = chosen.to = -1;
  if (!sameTokens) drawHeads();
  press();
  await drawHead(sameTokens);
}

/** Draw the head that is chosen. */
async function drawHead(sameTokens = false) {
  const [from, to] = sides(), asked = JSON.stringify(chosen);
  const rows = await mapOf(kind(), chosen.layer, chosen.head, held.scale);
  if (image && !image.complete) await image.decode();
  if (asked !== JSON.stringify(chosen)) return; // something else was chosen meanwhile
  const left = shownSide(from, chosen.words, chosen.special), right = shownSide(to, chosen.words, chosen.special);
  const whole = chosen.words ? grouped(rows, from.words, to.words) : rows;
  seen = {
    rows: without(whole, right.all, left.places, right.places), high: left.places.length, wide: right.places.length,
    from: left, to: right,
  };
  find("title").textContent = nameOf(chosen.layer, chosen.head);
  Object.assign(find("words"), { disabled: !worded(), checked: chosen.words });
  if (!sameTokens) fillSelects();
  const title = `${nameOf(chosen.layer, chosen.head)}: who attends to whom`;
  if (sameTokens && drawing?.update && drawing.draw === chosen.draw) { // the labels stay
    drawing.update(seen);
    drawing.svg.querySelector("title").textContent = title;
  } else if (chosen.draw === "patches") {
    const hover = (place) => say(chosen.from, place);
    drawing = drawPatches({ ...seen, rows, wide: to.labels.length, high: from.labels.length }, held.grid, image, title, hover, pick);
  } else if (chosen.draw === "map") {
    drawing = drawMap(seen, title, say, pick);
  } else {
    drawing = drawLines(seen, title, find("drawing").closest(".beside").clientWidth - 6, (side, place, kept) => {
      if (kept) select(side === 0 ? place : -1, side === 1 ? place : -1);
      else if (place < 0) paint(chosen.from, chosen.to);
      else paint(side === 0 ? place : -1, side === 1 ? place : -1);
    });
  }
  drawing.draw = chosen.draw;
  if (drawing.root.parentNode !== find("drawing")) find("drawing").replaceChildren(drawing.root);
  paint(chosen.from, chosen.to);
  document.documentElement.dataset.drawn = asked; // for whoever waits for it
  unpackAhead(kind(), chosen.layer, () => asked === JSON.stringify(chosen));
}

/** Offer the tokens that are shown. */
function fillSelects() {
  for (const [id, side] of [["from", seen.from], ["to", seen.to]]) {
    const options = side.labels.map((label, place) => make("option", { value: place }, `${place + 1}  ${label}`));
    find(id).replaceChildren(make("option", { value: -1 }, "all"), ...options);
    find(id).value = String(chosen[id]);
  }
}

/** Choose a token that attends, or one that is attended to; the same one again lets go of it. */
function select(from, to) {
  if (from === chosen.from && to === chosen.to) [from, to] = [-1, -1];
  Object.assign(chosen, { from, to });
  find("from").value = String(from);
  find("to").value = String(to);
  paint(from, to);
}

const pick = (from) => select(from, -1);

/** Paint the lines or cells of a token, and say in numbers what it looks at. */
function paint(from, to) {
  const left = drawing.paint(from, to);
  const ranking = find("ranking");
  if (chosen.draw === "patches") {
    find("readout").textContent = from >= 0
      ? `From ${seen.from.labels[from]}: the brightest patch gets ${digits(left)}.`
      : `From all tokens on average: the brightest patch gets ${digits(left)}. Choose a patch to see where it looks.`;
  } else if (from < 0 && to < 0) {
    find("readout").textContent = left
      ? `Lines of less than ${FAINTEST} are left out. Choose a token to see its numbers.`
      : "Choose a token to see its numbers.";
  } else {
    const some = from >= 0 ? `From \u2068${seen.from.labels[from]}\u2069` : "From all";
    find("readout").textContent = to >= 0 ? `${some} to \u2068${seen.to.labels[to]}\u2069` : some;
  }
  if (from < 0 && to < 0) { ranking.hidden = true; return; }
  const others = from >= 0 ? seen.to : seen.from;
  const shares = others.labels.map((label, place) => ({
    label, name: others.names[place], place,
    share: from >= 0 ? seen.rows[from * seen.wide + place] : seen.rows[place * seen.wide + to],
  })).filter((one) => from < 0 || to < 0 || one.place === to);
  shares.sort((one, other) => other.share - one.share);
  const caption = from >= 0 ? `What \u2068${seen.from.labels[from]}\u2069 looks at` : `What looks at \u2068${seen.to.labels[to]}\u2069`;
  const named = shares.slice(0, 10).some((one) => one.name);
  const lines = shares.slice(0, 10).map(({ label, name, place, share }) => make("tr", {},
    make("td", {}, String(place + 1)), make("td", { dir: "auto" }, label),
    ...(named ? [make("td", { dir: "auto", class: "pale" }, name)] : []), make("td", { class: "number" }, digits(share))));
  const heads = ["place", chosen.words ? "word" : "token", ...(named ? ["in the vocabulary"] : []), "attention"]
    .map((name) => make("th", { scope: "col" }, name));
  const counted = shares.length > 10 ? `: the strongest 10 of ${shares.length}` : "";
  ranking.replaceChildren(make("caption", {}, caption + counted), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
  ranking.hidden = false;
}

/** Say one number. */
function say(query, key) {
  if (query < 0) return;
  find("readout").textContent =
    `\u2068${seen.from.labels[query]}\u2069 \u2192 \u2068${seen.to.labels[key]}\u2069: ${digits(seen.rows[query * seen.wide + key])}`;
}

/** Save what is shown as a vector graphic, as on paper. */
function save() {
  const root = (drawing.svg ?? drawing.root).cloneNode(true);
  if (drawing.cells) root.insertBefore(svg("g", {}), root.querySelector(".frame")).append(...drawing.cells());
  root.insertBefore(svg("rect", { width: "100%", height: "100%", fill: "#ffffff" }), root.children[1]);
  root.querySelectorAll(".area").forEach((area) => area.remove());
  root.querySelectorAll("[class]").forEach((one) => one.removeAttribute("class"));
  const text = new XMLSerializer().serializeToString(root);
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const name = nameOf(chosen.layer, chosen.head).toLowerCase().replace(/[^a-z0-9]+/g, "-");
  make("a", { href: address, download: `${name}-${chosen.draw}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Connect the controls. */
function listen() {
  for (const input of document.querySelectorAll("input[name=kind]"))
    input.addEventListener("change", () => choose({ kind: Number(input.value) }));
  for (const input of document.querySelectorAll("input[name=draw]"))
    input.addEventListener("change", () => { find("save").hidden = input.value === "patches"; choose({ draw: input.value }); });
  find("words").addEventListener("change", (event) => choose({ words: event.target.checked }));
  find("special").addEventListener("change", (event) => choose({ special: event.target.checked }));
  find("from").addEventListener("change", (event) => select(Number(event.target.value), chosen.to));
  find("to").addEventListener("change", (event) => select(chosen.from, Number(event.target.value)));
  find("save").addEventListener("click", save);
  for (const medium of [printing, dark]) medium.addEventListener("change", () => { drawScale(); colourHeads(); if (drawing) paint(chosen.from, chosen.to); });
}

listen();
drawScale();
drawHeads();
drawHead();
