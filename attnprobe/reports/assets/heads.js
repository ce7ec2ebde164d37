// The small maps of all heads: how they are laid out, coloured and walked.

let buttons = [], places = [], byHead = new Map(), pressed = null, small = null, shown = null, turn = 0;

const headKey = (layer, head) => `${layer}.${head}`;

/** Give the heads layer by layer, [layer, head] or null for one that was removed. */
function lines(now) {
  const columns = now.heads + (now.rollout ? 1 : 0);
  const gone = new Set(now.removed.map(([layer, head]) => headKey(layer, head)));
  return now.layers.map((_, layer) => Array.from({ length: columns }, (_, head) => (gone.has(headKey(layer, head)) ? null : [layer, head])));
}

const BESIDE = ["role", "also"]; // what a table of roles says beside its measure

/** Say the role of a head, if a table names one: the role, and by which number. */
function sayRole(layer, head) {
  const said = rolled(head) ? null : kind().notes.find(({ roles }) => roles?.[layer][head])?.roles[layer][head];
  if (!said) return "";
  const measure = said.find(([name]) => !BESIDE.includes(name));
  return `: ${said[0][1]}${measure ? `, ${measure[0]} ${measure[1].split(", threshold")[0]}` : ""}`;
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
  const [high, wide] = small.size, columns = kind().heads + (kind().rollout ? 1 : 0);
  places.flat().forEach((at, number) => {
    if (!at) return;
    const first = (at[0] * columns + at[1]) * high * wide;
    fillCanvas(buttons.flat()[number].firstChild, wide, high, (cell) => (small.bytes[first + cell] / 255) ** 2);
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
  const cells = lines(now);
  const columns = Math.max(...cells.map((line) => line.length));
  const room = Math.min(440, document.body.clientWidth - 90 - 2 * columns); // the card grows with its maps
  find("grid").style.setProperty("--cell", `${Math.max(26, Math.min(70, Math.floor(room / columns)))}px`);
  const head = make("tr", {}, make("td"));
  for (let place = 0; place < columns; place++)
    head.append(make("th", { scope: "col" }, rolled(place) ? "roll\u00adout" : String(place)));
  const body = make("tbody");
  places = cells;
  byHead = new Map();
  buttons = cells.map((line, row) => {
    const tr = make("tr", {}, make("th", { scope: "row" }, String(now.layers[row])));
    const made = line.map((at, place) => {
      if (!at) {
        tr.append(make("td", { class: "removed", title: "removed" }));
        return null;
      }
      const title = nameOf(...at) + sayRole(...at);
      const button = make("button", {
        type: "button", title, "aria-label": title, "aria-pressed": "false", tabindex: "-1",
      }, make("canvas", { "aria-hidden": "true" }));
      button.addEventListener("click", () => choose({ layer: at[0], head: at[1] }));
      button.addEventListener("keydown", (event) => move(event, row, place));
      tr.append(make("td", {}, button));
      byHead.set(headKey(...at), button);
      return button;
    });
    body.append(tr);
    return made;
  });
  const caption = "Layers from top to bottom, heads from left to right";
  find("grid").replaceChildren(make("caption", { class: "unseen" }, caption), make("thead", {}, head), body);
  press();
  cue();
}

/** Say that there is more to the side, where there is. */
function cue() {
  const box = find("grid").closest(".scroll");
  const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
  find("cue").hidden = box.scrollWidth <= box.clientWidth + 1;
  box.classList.toggle("has-more", hidden > 1);
}

/** Let the arrow keys go from head to head. */
function move(event, row, place) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  let [down, right] = [row + step[0], place + step[1]];
  while (buttons[down]?.[right] === null) { down += step[0]; right += step[1]; }
  const at = places[down]?.[right];
  if (!at) return;
  choose({ layer: at[0], head: at[1] });
  buttons[down][right].focus();
}

/** Show which head is chosen; the keyboard comes to it, or to the first where it is not among them. */
function press() {
  const button = byHead.get(headKey(chosen.layer, chosen.head)) ?? null;
  const stop = button ?? buttons.flat().find(Boolean) ?? null;
  if (stop === pressed && stop?.tabIndex === 0 && (stop.getAttribute("aria-pressed") === "true") === Boolean(button)) return;
  if (pressed) {
    pressed.setAttribute("aria-pressed", "false");
    pressed.tabIndex = -1;
  }
  button?.setAttribute("aria-pressed", "true");
  if (stop) stop.tabIndex = 0;
  pressed = stop;
}
