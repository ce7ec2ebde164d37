// The small maps of all heads: how they are laid out, coloured and walked.

let buttons = []; // by layer and head; null for a head that was removed
let pressed = null, small = null, shown = null, turn = 0;

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
  const [high, wide] = small.size;
  buttons.flat().forEach((button, number) => {
    const first = number * high * wide;
    if (button) fillCanvas(button.firstChild, wide, high, (cell) => (small.bytes[first + cell] / 255) ** 2);
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
  const columns = now.heads + (now.rollout ? 1 : 0), removed = new Set(now.removed.map(String));
  const room = Math.min(440, document.body.clientWidth - 90 - 2 * columns); // the card grows with its maps
  find("grid").style.setProperty("--cell", `${Math.max(26, Math.min(70, Math.floor(room / columns)))}px`);
  const head = make("tr", {}, make("td"));
  for (let place = 0; place < columns; place++)
    head.append(make("th", { scope: "col" }, rolled(place) ? "roll\u00adout" : String(place)));
  const body = make("tbody");
  buttons = now.layers.map((name, layer) => {
    const tr = make("tr", {}, make("th", { scope: "row" }, String(name)));
    const line = Array.from({ length: columns }, (_, head) => {
      if (removed.has(`${layer},${head}`)) {
        tr.append(make("td", { class: "removed", title: "removed" }));
        return null;
      }
      const title = nameOf(layer, head) + sayRole(layer, head);
      const button = make("button", {
        type: "button", title, "aria-label": title, "aria-pressed": "false", tabindex: "-1",
      }, make("canvas", { "aria-hidden": "true" }));
      button.addEventListener("click", () => choose({ layer, head }));
      button.addEventListener("keydown", (event) => move(event, layer, head));
      tr.append(make("td", {}, button));
      return button;
    });
    body.append(tr);
    return line;
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
function move(event, layer, head) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  do { layer += step[0]; head += step[1]; } while (buttons[layer]?.[head] === null);
  if (!buttons[layer]?.[head]) return;
  choose({ layer, head });
  buttons[layer][head].focus();
}

/** Show which head is chosen; the keyboard comes to it, or to the first where it is not among them. */
function press() {
  const button = buttons[chosen.layer]?.[chosen.head] ?? null;
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
