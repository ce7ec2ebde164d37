// Examples: sentences of the data where the head that is shown first is most and least itself.

const examples = held.examples ? held.examples.groups.flatMap(({ title, items }) => (
  items.map((item, rank) => ({ ...item, title, rank, of: items.length })))) : [];

/** Give the example that is open; null where the sentence of the page is shown. */
const openExample = () => (chosen.example === null ? null : examples[chosen.example]);

const exampleSides = ({ sides }) => [sides[0], sides[sides.length - 1]];

/** Give the map of an example as numbers from 0 to 1, query by query. */
async function exampleMap(one, scale) {
  one.bytes ??= unpacked(one.packed);
  return readMap(await one.bytes, 0, one.size[0] * one.size[1], scale);
}

const EXAMPLE_INK = 0.45; // paler than maps, for it is text that is read

/** Say which example it is. */
const exampleTitle = (one) => `example ${one.rank + 1} of ${one.of} where it is ${one.title}`;

/** Write the sentence of an example; the more a token adds to the score, the stronger its colour and the longer its bar. */
function exampleText(one) {
  const side = exampleSides(one)[0], spelled = [];
  side.labels.forEach((label, place) => {
    if (side.special[place]) return;
    if (spelled.length && !side.continues?.[place]) spelled.push(" ");
    const value = Math.max(0, one.values[place] ?? 0), rgb = colour((EXAMPLE_INK * value) ** 2); // even steps
    const piece = make("span", { class: "piece" }, make("bdi", {}, label));
    piece.style.setProperty("background-color", `rgb(${rgb.join(" ")})`);
    piece.style.setProperty("color", inkOn(rgb));
    piece.style.setProperty("--share", value);
    spelled.push(piece);
  });
  if (one.cut) spelled.push("\u2026");
  return spelled;
}

/** Fill the lists of examples. */
function drawExamples() {
  if (!examples.length) return;
  const { note, bars, formula, groups, kind: number, layer, head } = held.examples;
  const place = held.kinds[number].layers.indexOf(layer);
  find("examples-title").textContent = `${nameOf(place, head)} in other sentences`;
  find("examples-note").textContent = note;
  find("examples-bars").textContent = `The colour of a token, and the bar below it, are ${bars}; behind the sentence stands its strongest line. Choose a sentence to see it large; arrow keys walk.`;
  find("examples-formula").textContent = formula;
  let first = 0;
  toldExample = null;
  find("examples-lists").replaceChildren(...groups.map(({ title, items }) => {
    const start = first, list = make("ol", { class: "examples", "aria-label": `Sentences where it is ${title}` });
    first += items.length;
    list.append(...items.map((item, rank) => make("li", {}, exampleButton(start, rank, items.length))));
    return make("div", {}, make("h3", {}, `Where it is ${title}`), list);
  }));
}

/** Make the button that opens an example. */
function exampleButton(start, rank, length) {
  const one = examples[start + rank], [from, to, share] = one.strongest;
  const strongest = make("span", { class: "strongest" }, make("bdi", {}, from), " \u2192 ", make("bdi", {}, to), ` ${share}`);
  const text = make("span", { class: "sentence", dir: "auto" }, ...exampleText(one));
  const button = make("button", { type: "button", class: "example", "aria-pressed": "false", tabindex: rank ? "-1" : "0" },
    make("span", { class: "score" }, one.score), text, strongest);
  button.setAttribute("aria-label", `Score ${one.score}: ${text.textContent} Strongest: ${from} to ${to}, ${share}.`);
  button.addEventListener("click", () => showExample(chosen.example === start + rank ? null : start + rank));
  button.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1, Home: -rank, End: length - 1 - rank }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = exampleButtons()[start + Math.max(0, Math.min(length - 1, rank + step))];
    button.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return button;
}

const exampleButtons = () => [...document.querySelectorAll(".example")];

/** Open an example in the place of the sentence, or go back to that. */
async function showExample(example) {
  const { kind: number, layer, head } = held.examples;
  const focus = document.activeElement;
  const place = held.kinds[number].layers.indexOf(layer);
  checkKind(number);
  await choose(example === null ? { example } : { example, kind: number, layer: place, head }, false);
  if (example !== null) find("one").scrollIntoView({ block: "nearest" });
  focus?.focus({ preventScroll: true });
}

let toldExample = null;

/** Say which example is open, if one is. */
function tellExample() {
  if (toldExample === chosen.example) return;
  toldExample = chosen.example;
  const one = openExample();
  exampleButtons().forEach((button, number) => button.setAttribute("aria-pressed", String(number === chosen.example)));
  find("opened").hidden = !one;
  find("opened-said").textContent = one ? `This is ${exampleTitle(one)}: score ${one.score}, text ${one.place} of the data.` : "";
}
