// The page: what is chosen, and what follows from it.

const find = (id) => document.getElementById(id);
const chosen = { ...held.chosen };
const image = held.picture ? Object.assign(new Image(), { src: held.picture }) : null;
chosen.least = null; // the least attention that is drawn as a line; null leaves each token a few
let seen = null, drawing = null, drawTurn = 0;

const kind = () => held.kinds[chosen.kind];
const sides = () => [held.sides[kind().queries], held.sides[kind().keys]];
const worded = () => sides().every((side) => side.words);
const rolled = (head) => head === kind().heads;
const nameOf = (layer, head) => {
  const place = `${held.kinds.length > 1 ? `${kind().name} ` : ""}layer ${kind().layers[layer]}`;
  return rolled(head) ? `Rollout up to ${place}` : `${place[0].toUpperCase()}${place.slice(1)}, head ${head}`;
};
const LINES = 3, RANKED = 10; // of a token where nobody says how many; lines of a table of numbers
const digits = (share) => share.toFixed(chosen.words ? 3 : 4);

/** Make an element of HTML; text is text, never markup. */
function make(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** Change what is chosen, and show it. */
async function choose(changes, named = true) {
  const before = { ...chosen };
  Object.assign(chosen, changes);
  if (before.kind !== chosen.kind) {
    chosen.layer = Math.min(chosen.layer, kind().layers.length - 1);
    if (chosen.head >= kind().heads + (kind().rollout ? 1 : 0)) chosen.head = 0;
  }
  if (!worded()) chosen.words = false;
  const sameMaps = ["kind", "words", "special"].every((name) => before[name] === chosen[name]);
  if (!sameMaps) {
    chosen.from = chosen.to = -1;
    drawHeads();
  }
  press();
  if (named) linkSoon();
  find("lost").hidden = true;
  await drawHead(sameMaps);
}

/** Give what is shown of a head: its numbers, and the tokens on both sides. */
async function look(layer, head) {
  const [from, to] = sides();
  const rows = await mapOf(kind(), layer, head, held.scale);
  const left = shownSide(from, chosen.words, chosen.special), right = shownSide(to, chosen.words, chosen.special);
  const whole = chosen.words ? grouped(rows, from.words, to.words) : rows;
  const found = {
    rows: without(whole, right.all, left.places, right.places), high: left.places.length, wide: right.places.length,
    from: left, to: right, same: from === to, whole: rows, title: `${nameOf(layer, head)}: who attends to whom`,
  };
  found.marks = placeMarks(kind().gold, rolled(head) ? null : kind().gold?.hits[layer][head], [from, to], [left, right], chosen.words);
  found.least = sparest(found);
  return found;
}

/** Find the least attention that leaves every token at most a few lines, in steps of what the page holds. */
function sparest({ rows, high, wide }) {
  let found = FAINTEST;
  const top = new Float32Array(LINES + 1);
  for (let query = 0; query < high; query++) {
    top.fill(0);
    for (let place = query * wide; place < (query + 1) * wide; place++) {
      let at = LINES;
      if (rows[place] <= top[at]) continue;
      while (at > 0 && rows[place] > top[at - 1]) { top[at] = top[at - 1]; at -= 1; }
      top[at] = rows[place];
    }
    found = Math.max(found, (Math.floor(top[LINES] * held.scale + 0.01) + 1) / held.scale);
  }
  return Math.min(1, found);
}

/** Give the least attention that is drawn as a line; of a token alone, all can be seen. */
const leastOf = (one, alone) => chosen.least ?? (alone ? FAINTEST : one.least);

/** Draw a head, or only change what another head changes. */
function drawOne(before, one, sameTokens) {
  let made = before;
  if (sameTokens && before?.update && before.draw === chosen.draw) { // the labels stay
    before.update(one);
    if (before.svg) before.svg.querySelector("title").textContent = one.title;
  } else if (chosen.draw === "patches") {
    const hover = (place) => say(chosen.from, place);
    const [from, to] = sides();
    made = drawPatches({ ...one, rows: one.whole, wide: to.labels.length, high: from.labels.length }, held.grid, image, one.title, hover, pick);
  } else if (chosen.draw === "map") {
    made = drawMap(one, roomFor(), one.title, say, pick);
  } else if (chosen.draw === "text") {
    made = drawText(one, one.title, (place, kept) => {
      if (kept) select(place, -1);
      else if (place < 0) paint(chosen.from, chosen.to);
      else paint(place, -1);
    });
  } else {
    made = drawLines(one, one.title, roomFor(), (side, place, kept) => {
      if (kept) select(side === 0 ? place : -1, side === 1 ? place : -1);
      else if (place < 0) paint(chosen.from, chosen.to);
      else paint(side === 0 ? place : -1, side === 1 ? place : -1);
    });
  }
  made.draw = chosen.draw;
  if (!made.root.parentNode) find("drawing").replaceChildren(made.root);
  return made;
}

/** Give the pixels across that a drawing can have. */
function roomFor() {
  return find("drawing").parentNode.clientWidth - 8;
}

/** Draw the head that is chosen. */
async function drawHead(sameTokens = false) {
  const mine = ++drawTurn;
  const next = await look(chosen.layer, chosen.head);
  if (image && !image.complete) await image.decode();
  if (mine !== drawTurn) return; // something else was chosen meanwhile
  seen = next;
  find("title").textContent = nameOf(chosen.layer, chosen.head);
  Object.assign(find("words"), { disabled: !worded(), checked: chosen.words });
  if (!sameTokens) fillSelects();
  for (const one of document.querySelectorAll(".for-lines")) one.hidden = chosen.draw !== "lines";
  find("save").hidden = !["lines", "map"].includes(chosen.draw);
  drawing = drawOne(drawing, seen, sameTokens);
  paint(chosen.from, chosen.to);
  drawNotes();
  explainMarks();
  document.documentElement.dataset.drawn = JSON.stringify(chosen); // for whoever waits for it
  unpackAhead(kind(), chosen.layer, () => mine === drawTurn);
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
  const alone = from >= 0 || to >= 0;
  const left = drawing.paint(from, to, leastOf(seen, alone));
  find("readout").textContent = tell(from, to, left);
  showLeast(alone);
  if (chosen.draw === "patches" && !alone) { find("ranking").hidden = true; return; }
  rank(from, to);
}

/** Say what is painted. */
function tell(from, to, left) {
  if (chosen.draw === "patches") {
    return from >= 0
      ? `From ${seen.from.labels[from]}: the brightest patch gets ${digits(left)}.`
      : `From all tokens on average: the brightest patch gets ${digits(left)}. Choose a patch to see where it looks.`;
  }
  if (chosen.draw === "text" && from >= 0 && to < 0) {
    const best = strongest(from, to).slice(0, LINES).map((one) => `\u2068${seen.to.labels[one.key]}\u2069 ${digits(one.share)}`);
    return `\u2068${seen.from.labels[from]}\u2069 looks most at ${best.join(", ")}.`;
  }
  if (from < 0 && to < 0) {
    if (chosen.draw === "text") return `Colours are the attention that each ${chosen.words ? "word" : "token"} gets on average. Go over one, or focus it, to see what it looks at.`;
    return left
      ? `Lines of less than ${Number(leastOf(seen, false).toFixed(4))} are left out. Choose a token to see its numbers.`
      : "Choose a token to see its numbers.";
  }
  const some = from >= 0 ? `From \u2068${seen.from.labels[from]}\u2069` : "From all";
  return to >= 0 ? `${some} to \u2068${seen.to.labels[to]}\u2069` : some;
}

/** Show the least attention that is drawn. */
function showLeast(alone) {
  const least = leastOf(seen, alone), said = String(Number(least.toFixed(4)));
  find("least").value = String(Math.round(Math.sqrt(least) * 100));
  find("least").setAttribute("aria-valuetext", said);
  find("least-said").textContent = said;
  find("few").checked = chosen.least === null;
}

/** Give the strongest of what is chosen, the strongest first: all of a token, or ten of all. */
function strongest(from, to) {
  const found = [];
  for (let query = Math.max(from, 0); query < (from >= 0 ? from + 1 : seen.high); query++) {
    for (let key = Math.max(to, 0); key < (to >= 0 ? to + 1 : seen.wide); key++) {
      const share = seen.rows[query * seen.wide + key];
      if (from < 0 && to < 0 && found.length >= RANKED && share <= found[RANKED - 1].share) continue;
      found.push({ query, key, share });
      if (from < 0 && to < 0) {
        found.sort((one, other) => other.share - one.share);
        found.length = Math.min(found.length, RANKED);
      }
    }
  }
  return found.sort((one, other) => other.share - one.share);
}

/** Fill the table of numbers beside the drawing. */
function rank(from, to) {
  const all = strongest(from, to), unit = chosen.words ? "word" : "token";
  const heading = (...names) => make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col", ...(name === "attention" ? { class: "number" } : {}) }, name))));
  const number = (share) => make("td", { class: "number" }, digits(share));
  const label = (text) => make("td", { dir: "auto" }, text);
  let caption, head, body;
  if (from < 0 && to < 0) {
    caption = "The strongest of this head";
    const gold = seen.marks.length > 0; // a column says which of them are gold links
    head = heading("from", "to", "attention", ...(gold ? ["gold"] : []));
    body = all.map(({ query, key, share }) => make("tr", {}, label(seen.from.labels[query]), label(seen.to.labels[key]), number(share), ...(gold ? [make("td", {}, linkAt(seen.marks, query, key))] : [])));
  } else {
    const others = from >= 0 ? seen.to : seen.from, place = (one) => (from >= 0 ? one.key : one.query);
    const listed = all.slice(0, RANKED), named = listed.some((one) => others.names[place(one)]);
    caption = from >= 0 ? `What \u2068${seen.from.labels[from]}\u2069 looks at` : `What looks at \u2068${seen.to.labels[to]}\u2069`;
    if (all.length > RANKED) caption += `: the strongest ${RANKED} of ${all.length}`;
    const gold = seen.marks.length > 0, link = (one) => (from >= 0 ? linkAt(seen.marks, from, one.key) : linkAt(seen.marks, one.query, to));
    head = heading("place", unit, ...(named ? ["in the vocabulary"] : []), "attention", ...(gold ? ["gold"] : []));
    body = listed.map((one) => make("tr", {},
      make("td", {}, String(place(one) + 1)), label(others.labels[place(one)]),
      ...(named ? [make("td", { dir: "auto", class: "pale" }, others.names[place(one)])] : []), number(one.share),
      ...(gold ? [make("td", {}, link(one))] : [])));
  }
  find("ranking").replaceChildren(make("caption", {}, caption), head, make("tbody", {}, ...body));
  find("ranking").hidden = false;
}

/** Show what tables say of the head: its role, and its numbers over a corpus. */
function drawNotes() {
  const { layer, head } = chosen, all = rolled(head) ? [] : kind().notes;
  find("notes").replaceChildren(...all.map((note) => {
    const lines = note.columns.filter((column) => column.texts[layer][head]).map((column) => make("tr", {},
      make("th", { scope: "row" }, column.title, ...(column.unit ? [make("small", {}, column.unit)] : [])), make("td", { class: "number" }, column.texts[layer][head])));
    lines.unshift(...(note.roles?.[layer][head] ?? []).map(([name, said]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, said))));
    const about = note.about ? ` (${note.about})` : "";
    return make("table", {}, make("caption", {}, `${note.source}${about}`), make("tbody", {}, ...lines));
  }));
}

/** Say what a head finds of the gold alignment, and how its links are drawn, of those kinds that there are. */
function explainMarks() {
  if (!find("gold")) return;
  const { marks } = seen, drawn = ["map", "lines"].includes(chosen.draw);
  find("gold").hidden = !marks.length;
  if (!marks.length) return;
  const finding = rolled(chosen.head) ? "" : kind().gold.findings[chosen.layer][chosen.head];
  find("finding").textContent = finding && `${finding}.`;
  const kinds = new Map(marks.map((mark) => [nameLink(mark), mark]));
  const names = [true, false].flatMap((sure) => [true, false, null].map((hit) => nameLink({ sure, hit }))).filter((name) => kinds.has(name));
  find("legend").hidden = !drawn;
  find("legend").replaceChildren(...names.map((name) => make("li", {}, sample(kinds.get(name), chosen.draw === "lines"), name)));
  const parted = chosen.draw === "map" && seen.same && seen.from.second > 0;
  find("hit").textContent = (finding ? kind().gold.explanation : "") + (parted ? " Lines part the first text from the second." : "");
  const spell = (side, [first, stop]) => `\u201c${side.labels.slice(first, stop).join("")}\u201d`;
  const whose = ({ rows }) => (seen.same && seen.from.second ? ` of the ${rows[0] < seen.from.second ? "first" : "second"} text` : "");
  const list = (name) => marks.filter((mark) => nameLink(mark) === name).map((mark) => `${spell(seen.from, mark.rows)}${whose(mark)} to ${spell(seen.to, mark.columns)}`);
  find("links-said").textContent = names.map((name) => `${name[0].toUpperCase()}${name.slice(1)}: ${list(name).join("; ")}.`).join(" ");
}

/** Say one number. */
function say(query, key) {
  if (query < 0) return;
  find("readout").textContent =
    `\u2068${seen.from.labels[query]}\u2069 \u2192 \u2068${seen.to.labels[key]}\u2069: ${digits(seen.rows[query * seen.wide + key])}${[linkAt(seen.marks, query, key)].filter(Boolean).map((link) => `, ${link}`)}`;
}

let linking = 0;

/** Write the head that is shown into the address once nothing else is to be done, for that takes a browser a while. */
function linkSoon() {
  clearTimeout(linking);
  linking = setTimeout(link, 50);
}

/** Write the head that is shown into the address, as a link to it. */
function link() {
  const layer = kind().layers[chosen.layer], head = rolled(chosen.head) ? "rollout" : chosen.head;
  const place = `#head=${held.kinds.length > 1 ? `${kind().name}.` : ""}${layer}.${head}`;
  try {
    history.replaceState(null, "", place);
  } catch { /* in a frame without an address of its own, there is nothing to link to */ }
}

/** Read the head off the address: what is to be chosen, null where it names none, or undefined where there is none such. */
function linked() {
  const said = /^#head=(.*)$/.exec(location.hash)?.[1];
  if (said === undefined) return null;
  const parts = /^(?:([a-z]+)\.)?(\d+)\.(\d+|rollout)$/.exec(said);
  if (!parts) return undefined;
  const number = parts[1] ? held.kinds.findIndex(({ name }) => name === parts[1]) : chosen.kind, named = held.kinds[number];
  const layer = named ? named.layers.indexOf(Number(parts[2])) : -1;
  const head = parts[3] === "rollout" ? named?.heads : Number(parts[3]);
  const there = layer >= 0 && head < named.heads + (named.rollout ? 1 : 0) && !named.removed.some(([l, h]) => l === layer && h === head);
  return there ? { kind: number, layer, head } : undefined;
}

/** Check the kind of attention that is shown among the kinds. */
function checkKind(number) {
  for (const input of document.querySelectorAll("input[name=kind]")) input.checked = Number(input.value) === number;
}

/** Follow the address to a head. */
async function follow() {
  clearTimeout(linking); // who gives an address has the last word
  const found = linked();
  if (found) {
    checkKind(found.kind);
    await choose(found, false);
  }
  find("lost").hidden = found !== undefined;
}

/** Connect the controls. */
function listen() {
  for (const input of document.querySelectorAll("input[name=kind]"))
    input.addEventListener("change", () => choose({ kind: Number(input.value) }));
  for (const input of document.querySelectorAll("input[name=draw]"))
    input.addEventListener("change", () => choose({ draw: input.value }, false));
  find("words").addEventListener("change", (event) => choose({ words: event.target.checked }, false));
  find("special").addEventListener("change", (event) => choose({ special: event.target.checked }, false));
  find("from").addEventListener("change", (event) => select(Number(event.target.value), chosen.to));
  find("to").addEventListener("change", (event) => select(chosen.from, Number(event.target.value)));
  find("save").addEventListener("click", () => saveSvg(drawing, nameOf(chosen.layer, chosen.head), chosen.draw));
  find("least").addEventListener("input", (event) => { chosen.least = (Number(event.target.value) / 100) ** 2; paint(chosen.from, chosen.to); });
  find("few").addEventListener("change", (event) => {
    chosen.least = event.target.checked ? null : leastOf(seen, chosen.from >= 0 || chosen.to >= 0);
    paint(chosen.from, chosen.to);
  });
  find("grid").closest(".scroll").addEventListener("scroll", cue);
  addEventListener("resize", cue);
  addEventListener("hashchange", follow);
  for (const medium of [printing, dark]) medium.addEventListener("change", () => { drawScale(); colourHeads(); if (drawing) paint(chosen.from, chosen.to); });
}

find("still")?.remove(); // which stands in for what follows
listen();
drawScale();
Object.assign(chosen, linked() ?? {});
drawHeads();
drawHead();
follow();
