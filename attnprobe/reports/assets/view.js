// The page of one sentence: all heads small, one of them large, and what is chosen.
//
// Sections: what the page holds, what is chosen, colours, small heads, the large head as lines, map, running
// text or over an image, gold links, numbers, the address, controls. Whatever is drawn reads "head".

const FAINTEST = 0.01, LINES = 3, RANKED = 10; // least line; lines of a token; lines of a table of numbers

// What the page holds.

const data = JSON.parse(find("data").textContent);
const image = data.picture ? Object.assign(new Image(), { src: data.picture }) : null;
const KEPT = 8, layers = new Map(); // so many layers are kept unpacked

/** Give the bytes of a layer, which may lie behind this script and not be there yet. */
function readLayer(id) {
  const read = async () => {
    while (!find(id)?.nextSibling && document.readyState === "loading")
      await new Promise((done) => setTimeout(done, 10));
    return unpack(find(id).textContent);
  };
  const bytes = layers.get(id) ?? read();
  layers.delete(id);
  layers.set(id, bytes); // the last one used comes last
  if (layers.size > KEPT) layers.delete(layers.keys().next().value);
  return bytes;
}

/** Add up attention to the tokens of a word, and average attention from them. */
function groupTokens(rows, queries, keys) {
  const high = Math.max(...queries) + 1, wide = Math.max(...keys) + 1;
  const groups = new Float32Array(high * wide), members = new Float32Array(high);
  for (const group of queries) members[group] += 1;
  let place = 0;
  for (const from of queries) for (const to of keys) groups[from * wide + to] += rows[place++] / members[from];
  return groups;
}

/** Tell what is shown of a side: the places of its tokens or words, and what they are called. */
function showSide(side) {
  const { words, special } = chosen, labels = words ? side.wordLabels : side.labels;
  const hidden = words ? side.specialWords : side.special;
  const places = labels.map((_, place) => place).filter((place) => special || !hidden[place]);
  const second = words ? side.words[side.second] : side.second; // where the second of two texts begins
  const before = side.second ? places.filter((place) => place < second).length : 0;
  return {
    places,
    all: labels.length,
    second: before < places.length ? before : 0,
    labels: places.map((place) => labels[place]),
    names: places.map((place) => (words || side.names[place] === labels[place] ? "" : side.names[place])),
    continues: places.map((place) => !words && Boolean(side.continues?.[place])),
  };
}

const WEIGHTS = { null: 1, true: 1.4, false: 0.5 }; // of a gold link: of what is no head, of hits and of misses

/** Read what is shown of the chosen head: its numbers, row by row, and the tokens on both sides. */
async function readHead() {
  const { sides, size, gold } = kind(), cells = size[0] * size[1], number = chosen.head;
  const hits = isRollout(number) ? null : gold?.hits[chosen.layer][number];
  const whole = readMap(await readLayer(`layer-${chosen.kind}-${chosen.layer}`), number * cells, cells, data.scale);
  const [from, to] = sides.map(showSide), high = from.places.length, wide = to.places.length;
  const every = chosen.words ? groupTokens(whole, sides[0].words, sides[1].words) : whole;
  const rows = new Float32Array(high * wide);
  let place = 0;
  for (const query of from.places) for (const key of to.places) rows[place++] = every[query * to.all + key];
  const marks = (gold?.links ?? []).map(([a, b, c, d, sure], link) => {
    const hit = hits ? hits[link] === 1 : null;
    return {
      rows: findShown(sides[0], from, a, b), columns: findShown(sides[1], to, c, d),
      sure: Boolean(sure), hit, weight: WEIGHTS[hit],
    };
  }).filter((mark) => mark.rows && mark.columns);
  return { rows, high, wide, from, to, whole, marks, least: findLeast(rows, high, wide) };
}

/** Find the tokens of a gold link among what is shown: the first, and the one behind the last. */
function findShown(side, { places }, first, stop) {
  const tokens = Array.from({ length: stop - first }, (_, place) => first + place);
  const shown = tokens.map((token) => places.indexOf(chosen.words ? side.words[token] : token)).filter((place) => place >= 0);
  return shown.length ? [Math.min(...shown), Math.max(...shown) + 1] : null;
}

/** Find the least attention that leaves every token at most a few lines, in steps of what the page holds. */
function findLeast(rows, high, wide) {
  let least = FAINTEST;
  for (let query = 0; query < high; query++) {
    const top = new Float32Array(LINES + 1); // the largest shares of a token, the least of them first
    for (let place = query * wide; place < (query + 1) * wide; place++)
      if (rows[place] > top[0]) {
        top[0] = rows[place];
        top.sort();
      }
    least = Math.max(least, (Math.floor(top[0] * data.scale + 0.01) + 1) / data.scale);
  }
  return Math.min(1, least);
}

// What is chosen.

const chosen = { ...data.chosen, least: null }; // least: of lines; null leaves each token a few
let head = null, drawing = null, turn = 0;

const kind = () => data.kinds[chosen.kind];
const hasWords = () => kind().sides.every((side) => side.words);
const countColumns = ({ heads, rollout }) => heads + (rollout ? 1 : 0);
const isRollout = (number) => number === kind().heads;
const shareOf = (query, key) => head.rows[query * head.wide + key];
const write = (share) => share.toFixed(chosen.words ? 3 : 4);
const isolate = (label) => `\u2068${label}\u2069`; // whatever its direction

function nameHead(layer, number) {
  const place = `${data.kinds.length > 1 ? `${kind().name} ` : ""}layer ${kind().layers[layer]}`;
  return isRollout(number) ? `Rollout up to ${place}` : `${place[0].toUpperCase()}${place.slice(1)}, head ${number}`;
}

/** Change what is chosen, and show it. */
async function choose(changes) {
  const before = { ...chosen };
  Object.assign(chosen, changes);
  if (before.kind !== chosen.kind) {
    chosen.layer = Math.min(chosen.layer, kind().layers.length - 1);
    if (chosen.head >= countColumns(kind())) chosen.head = 0;
  }
  chosen.words &&= hasWords();
  const sameTokens = ["kind", "words", "special"].every((name) => before[name] === chosen[name]);
  if (!sameTokens) {
    chosen.from = chosen.to = -1;
    drawHeads();
  }
  press();
  writeAddress();
  find("lost").hidden = true;
  await drawHead(sameTokens);
}

/** Draw the head that is chosen; where the tokens are the same, the drawing stays and is painted anew. */
async function drawHead(sameTokens = false) {
  const mine = ++turn, next = await readHead();
  if (image && !image.complete) await image.decode();
  if (mine !== turn) return; // something else was chosen meanwhile
  head = next;
  const name = nameHead(chosen.layer, chosen.head);
  find("title").textContent = name;
  Object.assign(find("words"), { disabled: !hasWords(), checked: chosen.words });
  for (const control of document.querySelectorAll(".for-lines")) control.hidden = chosen.draw !== "lines";
  find("save").hidden = !["lines", "map"].includes(chosen.draw);
  if (!sameTokens) offerTokens();
  if (!sameTokens || drawing?.draw !== chosen.draw) {
    const draw = { lines: drawLines, map: drawMap, text: drawText, patches: drawPatches }[chosen.draw];
    drawing = { draw: chosen.draw, help: "", ...draw() };
    find("drawing").replaceChildren(drawing.root);
  }
  drawing.root.setAttribute("aria-label", `${name}: who attends to whom.${drawing.help}`);
  drawing.picture?.setAttribute("aria-label", drawing.root.getAttribute("aria-label"));
  repaint();
  drawNotes();
  explainGold();
  document.documentElement.dataset.drawn = JSON.stringify(chosen); // for whoever waits for it
}

/** Offer the tokens that are shown. */
function offerTokens() {
  for (const id of ["from", "to"]) {
    const options = head[id].labels.map((label, place) => make("option", { value: place }, `${place + 1}  ${label}`));
    find(id).replaceChildren(make("option", { value: -1 }, "all"), ...options);
    find(id).value = String(chosen[id]);
  }
}

/** Choose a token that attends, or one that is attended to; the same one again lets go of it. */
function select(from, to) {
  if (from === chosen.from && to === chosen.to) [from, to] = [-1, -1];
  Object.assign(chosen, { from, to });
  for (const id of ["from", "to"]) find(id).value = String(chosen[id]);
  repaint();
}

/** Paint a token as if it were chosen while the mouse is over an element; a click chooses it. */
function react(element, from, to) {
  element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && repaint(from, to));
  element.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && repaint());
  element.addEventListener("click", () => select(from, to));
}

/** Paint the lines or cells of a token, or of all, and say in numbers what it looks at. */
function repaint(from = chosen.from, to = chosen.to) {
  const least = leastLine(from, to);
  drawing.paint(from, to);
  find("readout").textContent = tell(from, to);
  find("least").value = String(Math.round(Math.sqrt(least) * 100));
  find("least").setAttribute("aria-valuetext", String(Number(least.toFixed(4))));
  find("least-said").textContent = String(Number(least.toFixed(4)));
  find("few").checked = chosen.least === null;
  rank(from, to);
}

/** Give the least attention that is drawn as a line; of a token alone, all can be seen. */
const leastLine = (from, to) => chosen.least ?? (from >= 0 || to >= 0 ? FAINTEST : head.least);

/** Visit all shares of a token that attends, of one that is attended to, or of all. */
function visit(from, to, see) {
  for (let query = Math.max(from, 0); query < (from >= 0 ? from + 1 : head.high); query++)
    for (let key = Math.max(to, 0); key < (to >= 0 ? to + 1 : head.wide); key++) see(query, key, shareOf(query, key));
}

/** Tell where a key leads from a place among rows and columns; null for any other key. */
function walk(event, [row, column], high, wide) {
  const [down, right] = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -wide], End: [0, wide],
  }[event.key] ?? [0, 0];
  if (!down && !right) return null;
  event.preventDefault();
  return [Math.max(0, Math.min(high - 1, row + down)), Math.max(0, Math.min(wide - 1, column + right))];
}

/** Tell which cell of an element the mouse is over, and which is clicked: its row and column. */
function reactToCells(element, high, wide, look, pick) {
  const listen = (name, act) => element.addEventListener(name, (event) => {
    const box = element.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / box.height * high);
    const column = Math.floor((event.clientX - box.left) / box.width * wide);
    if (row >= 0 && column >= 0 && row < high && column < wide) act(row, column);
  });
  listen("pointermove", look);
  listen("click", pick);
}

/** Average what each token gets. */
function averageRows(rows, wide) {
  const means = new Float32Array(wide);
  rows.forEach((share, place) => { means[place % wide] += share * wide / rows.length; });
  return means;
}

// Colours.

const LIGHT = [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]];
const DARK = [[22, 26, 32], [24, 58, 104], [36, 108, 184], [112, 178, 240], [232, 244, 255]];
const STEPS = 1000, dark = matchMedia("(prefers-color-scheme: dark)");

/** Mix the colour of a share of attention; steps of colour are steps of its square root. */
function mix(share, ramp = dark.matches ? DARK : LIGHT) {
  const place = Math.min(1, Math.sqrt(Math.max(0, share))) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  return ramp[low].map((part, channel) => Math.round(part + (ramp[low + 1][channel] - part) * (place - low)));
}

/** Make the pixels of shares in steps of 1/1000, each as one number. */
function makePixels() {
  const bytes = new Uint8ClampedArray(4 * (STEPS + 1));
  for (let step = 0; step <= STEPS; step++) bytes.set([...mix(step / STEPS), 255], step * 4);
  return new Uint32Array(bytes.buffer);
}

let pixels = makePixels();

/** Fill a canvas with a map, one pixel a cell; the style sheet makes the cells large. */
function fillCanvas(canvas, wide, high, share) {
  Object.assign(canvas, { width: wide, height: high });
  const picture = new ImageData(wide, high), cells = new Uint32Array(picture.data.buffer);
  for (let cell = 0; cell < cells.length; cell++) cells[cell] = pixels[Math.round(Math.min(1, share(cell)) * STEPS)];
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

// The small maps of all heads.

let buttons = []; // by layer and head; null for a head that was removed
let small = null, laidOut = null, smallTurn = 0;

/** Draw the small maps of what is shown; where words or special tokens make no difference, there is one set. */
async function drawHeads() {
  const mine = ++smallTurn, plain = chosen.special ? "" : "-plain", unit = chosen.words ? "words" : "tokens";
  const sets = [unit + plain, unit, `tokens${plain}`, "tokens"].map((name) => kind().small[name]).filter(Boolean);
  const { size, packed } = sets[0], bytes = await unpack(packed);
  if (mine !== smallTurn) return;
  small = { size, bytes };
  if (laidOut !== kind()) layOut();
  laidOut = kind();
  colourHeads();
}

function colourHeads() {
  const [high, wide] = small.size;
  buttons.flat().forEach((button, number) => {
    const first = number * high * wide;
    if (button) fillCanvas(button.firstChild, wide, high, (cell) => (small.bytes[first + cell] / 255) ** 2);
  });
}

/** Lay out a button for every head of a kind. */
function layOut() {
  const { layers, removed, notes } = kind(), columns = countColumns(kind());
  const room = Math.min(440, document.body.clientWidth - 90 - 2 * columns); // the card grows with its maps
  find("grid").style.setProperty("--cell", `${Math.max(26, Math.min(70, Math.floor(room / columns)))}px`);
  const roles = notes.find((note) => note.roles)?.heads;
  const layOutHead = (layer, number) => {
    if (removed.some(([gone, other]) => gone === layer && other === number)) return null;
    const role = roles?.[layer][number]?.[0]?.[1]; // the first line that a table of roles has for a head
    const title = nameHead(layer, number) + (role ? `: ${role}` : "");
    const button = make("button", {
      type: "button", title, "aria-label": title, "aria-pressed": "false", tabindex: "-1",
    }, make("canvas", { "aria-hidden": "true" }));
    button.addEventListener("click", () => choose({ layer, head: number }));
    button.addEventListener("keydown", (event) => walkHeads(event, layer, number));
    return button;
  };
  buttons = layers.map((_, layer) => Array.from({ length: columns }, (_, number) => layOutHead(layer, number)));
  const names = Array.from({ length: columns }, (_, number) => (isRollout(number) ? "roll\u00adout" : String(number)));
  const lines = buttons.map((line, layer) => make("tr", {}, make("th", { scope: "row" }, String(layers[layer])),
    ...line.map((button) => (button ? make("td", {}, button) : make("td", { class: "removed", title: "removed" })))));
  find("grid").replaceChildren(
    make("caption", { class: "unseen" }, "Layers from top to bottom, heads from left to right"),
    make("thead", {}, make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...lines));
  press();
}

/** Let the arrow keys go from head to head, over those that were removed. */
function walkHeads(event, layer, number) {
  const next = walk(event, [layer, number], buttons.length, buttons[0].length);
  if (!next || (next[0] === layer && next[1] === number)) return;
  const button = buttons[next[0]][next[1]];
  if (!button) return walkHeads(event, ...next);
  choose({ layer: next[0], head: next[1] });
  button.focus();
}

/** Show which head is chosen; the keyboard comes to it, or to the first where it is not among them. */
function press() {
  const all = buttons.flat().filter(Boolean), pressed = buttons[chosen.layer]?.[chosen.head] ?? null;
  for (const button of all) {
    const index = button === (pressed ?? all[0]) ? 0 : -1, isPressed = String(button === pressed);
    if (button.tabIndex !== index) button.tabIndex = index;
    if (button.getAttribute("aria-pressed") !== isPressed) button.setAttribute("aria-pressed", isPressed);
  }
}

// The large head as lines. What is drawn as SVG is also what is saved, in the colours of paper.

const LINE = 20, CLOSEST = 70, FARTHEST = 620, SHADES = 20, LONGEST = 20;
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "13px Helvetica, Arial, sans-serif";

const widest = (labels) => Math.max(20, ...labels.map((label) => ruler.measureText(label).width));
const countRoom = () => find("drawing").parentNode.clientWidth - 8;

/** Cut the labels of a side, and mark a piece that goes on with a word. */
const cutLabels = ({ labels, continues }) => labels.map((label, place) =>
  (continues[place] ? "\u00b7" : "") + (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}\u2026` : label));

function startPicture(width, height) {
  const [wide, high] = [Math.ceil(width), Math.ceil(height)];
  return svg("svg", {
    xmlns: "http://www.w3.org/2000/svg", width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img",
    "font-family": "Helvetica, Arial, sans-serif", "font-size": "13",
  });
}

const label = (text, attributes) => svg("text", { fill: "#1a1a1a", class: "token", ...attributes }, text);
const remark = (text, attributes) => svg("text", { fill: "#666666", class: "pale", ...attributes }, text);

/** Draw lines between two columns of tokens. */
function drawLines() {
  const left = cutLabels(head.from), right = cutLabels(head.to), top = 26;
  const start = widest(left) + 16, end = widest(right) + 16;
  const stop = start + Math.max(CLOSEST, Math.min(FARTHEST, countRoom() - start - end));
  const root = startPicture(stop + end, top + Math.max(left.length, right.length) * LINE + 8);
  const middle = (place) => top + (place + 0.5) * LINE;
  const bands = svg("g", { fill: "none" }), strokes = svg("g", { fill: "none", class: "strokes" });
  const boxes = [[left, "from", "end", start - 8, 0, start], [right, "to", "start", stop + 8, stop, end]].map(
    ([labels, name, anchor, x, edge, width], side) => {
      root.append(remark(name, { x, y: 14, "text-anchor": anchor }));
      return labels.map((text, place) => {
        const box = svg("rect", {
          x: edge, y: top + place * LINE, width, height: LINE, fill: "#2171b5", "fill-opacity": 0, class: "area",
        });
        react(box, side ? -1 : place, side ? place : -1);
        root.append(box, label(text, { x, y: middle(place) + 4.5, "text-anchor": anchor, "unicode-bidi": "isolate" }));
        return box;
      });
    });
  root.append(bands, strokes);
  function paint(from, to) {
    const centre = ([first, behind]) => middle((first + behind - 1) / 2);
    bands.replaceChildren(...head.marks.map((link) => drawBand(link, [start, centre(link.rows)], [stop, centre(link.columns)])));
    const paths = [], alone = from >= 0 || to >= 0, least = leastLine(from, to) - 1e-6;
    visit(from, to, (query, key, share) => {
      const shade = Math.min(SHADES, Math.ceil((alone ? Math.sqrt(share) : share) * SHADES)); // alone, seen better
      if (share >= least) paths[shade] = `${paths[shade] ?? ""}M${start} ${middle(query)}L${stop} ${middle(key)}`;
    });
    // Up to a width of 1, a browser draws thousands of lines at once.
    strokes.replaceChildren(...Object.entries(paths).map(([shade, d]) => svg("path", {
      d, stroke: "#08306b", "stroke-opacity": shade / SHADES, "stroke-width": 0.8 + Math.max(0, shade - 4) * 0.1,
    })));
    const shades = [
      (query) => (query === from ? 0.35 : to >= 0 ? 0.8 * Math.sqrt(shareOf(query, to)) : 0),
      (key) => (key === to ? 0.35 : from >= 0 ? 0.8 * Math.sqrt(shareOf(from, key)) : 0),
    ];
    boxes.forEach((side, which) => side.forEach((box, place) => box.setAttribute("fill-opacity", shades[which](place))));
  }
  return { root, picture: root, paint };
}

// The large head as a map: labels as SVG, cells on a canvas between them.

/** Draw a map; cells grow with the room, up to twice their size. */
function drawMap() {
  const left = cutLabels(head.from), above = cutLabels(head.to), { high, wide } = head;
  const least = Math.max(high, wide) > 60 ? 13 : 18;
  const x = Math.max(widest(left), widest(["query"])) + 12, y = widest(above) + 12, behind = widest(["key"]) + 12;
  const cell = Math.max(least, Math.min(2 * least, Math.floor((countRoom() - x - behind) / wide)));
  const width = cell * wide, height = cell * high, size = cell < 16 ? 11 : 13;
  const picture = startPicture(x + width + behind, y + height + 8);
  left.forEach((text, place) => picture.append(label(text, {
    x: x - 6, y: y + cell * (place + 0.5) + size / 3, "text-anchor": "end", "font-size": size,
  })));
  above.forEach((text, place) => picture.append(label(text, {
    transform: `translate(${x + cell * (place + 0.5) + size / 3} ${y - 6}) rotate(-90)`, "font-size": size,
  })));
  picture.append(remark("query", { x: x - 6, y: y - 6, "text-anchor": "end" }), remark("key", { x: x + width + 6, y: y - 6 }));
  const frame = svg("rect", { x, y, width, height, fill: "none", stroke: "#999999", class: "frame" });
  const links = svg("g"), cursor = svg("rect", {
    width: cell, height: cell, fill: "none", stroke: "#d95f0e", "stroke-width": 2, visibility: "hidden",
  });
  picture.append(frame);
  if (kind().same && head.from.second) { // lines part the first of two texts from the second
    const d = `M${x - 6} ${y + cell * head.from.second}h${width + 6}M${x + cell * head.to.second} ${y - 6}v${height + 6}`;
    picture.append(svg("path", { d, stroke: "#ffffff", "stroke-width": 3, class: "rim" }));
    picture.append(svg("path", { d, stroke: "#666666", class: "part" }));
  }
  picture.append(links, cursor);
  const canvas = make("canvas", { "aria-hidden": "true" });
  Object.assign(canvas.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  const root = make("div", { class: "map", tabindex: "0", role: "application", "aria-roledescription": "map" }, canvas, picture);
  let at = null; // the cell that the keyboard is at
  const hide = () => cursor.setAttribute("visibility", "hidden");
  const show = (query, key) => {
    for (const [name, value] of [["visibility", "visible"], ["x", x + cell * key], ["y", y + cell * query]])
      cursor.setAttribute(name, value);
    say(query, key);
  };
  reactToCells(canvas, high, wide, show, (query) => select(query, -1));
  canvas.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const next = walk(event, at ?? [0, 0], high, wide);
    if (next) {
      at = at ? next : [0, 0];
      show(...at);
      cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (at && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      select(at[0], -1);
    }
  });
  function paint(from, to) {
    const isOff = (place) => (from >= 0 && Math.floor(place / wide) !== from) || (to >= 0 && place % wide !== to);
    fillCanvas(canvas, wide, high, (place) => (isOff(place) ? 0 : head.rows[place]));
    links.replaceChildren(...head.marks.flatMap((link) => drawSquare(link, x, y, cell)));
  }
  /** Give the cells as vectors, a path for each of 48 colours. */
  function drawCells() {
    const paths = [];
    visit(-1, -1, (query, key, share) => {
      const shade = Math.round(Math.sqrt(share) * 48);
      paths[shade] = `${paths[shade] ?? ""}M${x + cell * key} ${y + cell * query}h${cell}v${cell}h-${cell}z`;
    });
    return Object.entries(paths).filter(([shade]) => shade > 0).map(([shade, d]) =>
      svg("path", { d, fill: `rgb(${mix((shade / 48) ** 2, LIGHT).join(",")})`, "shape-rendering": "crispEdges" }));
  }
  return { root, picture, paint, drawCells, help: " Arrow keys go from cell to cell, Enter chooses a row." };
}

// The large head as running text: the sentence as it reads, coloured by what the token in focus looks at.

/** Tell whether black or white reads better on a colour, by the luminance that WCAG defines. */
function chooseInk(rgb) {
  const [red, green, blue] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** Colour a word; the bar below it is as long as its share, so that colour is not the only sign. */
function tint(word, share) {
  const rgb = mix(share);
  word.style.setProperty("background-color", `rgb(${rgb.join(" ")})`);
  word.style.setProperty("color", chooseInk(rgb));
  word.style.setProperty("--share", share);
}

/** Draw the tokens as running text; those that attend are buttons. */
function drawText() {
  const spell = (side, start) => side.labels.map((text, place) => {
    const word = start(place);
    word.className = side.continues[place] ? "word goes-on" : "word";
    word.append(make("bdi", {}, text));
    return word;
  });
  const left = spell(head.from, (place) => make("button", { type: "button", tabindex: place ? "-1" : "0" }));
  const right = kind().same ? left : spell(head.to, () => make("span"));
  const line = (words) => make("p", { dir: "auto" }, ...words.flatMap((word) => (word.matches(".goes-on") ? [word] : [" ", word])));
  const root = make("div", { class: "reading", role: "group" });
  if (kind().same) root.append(line(left));
  else for (const [name, words] of [["from", left], ["to", right]]) root.append(make("p", { class: "pale" }, name), line(words));
  left.forEach((word, place) => {
    react(word, place, -1);
    word.addEventListener("focus", () => repaint(place, -1));
    word.addEventListener("blur", () => repaint());
    word.addEventListener("keydown", (event) => {
      const next = left[walk(event, [0, place], 1, left.length)?.[1]];
      if (!next) return;
      word.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });
  function paint(from, to) {
    const back = from < 0 && to >= 0, means = averageRows(head.rows, head.wide);
    const shares = (place) => (back ? shareOf(place, to) : from >= 0 ? shareOf(from, place) : means[place]);
    for (const word of back ? right : left) word.removeAttribute("style"); // which of two lines is not coloured
    (back ? left : right).forEach((word, place) => tint(word, shares(place)));
    left.forEach((word, place) => {
      word.classList.toggle("is-asked", place === from);
      word.setAttribute("aria-pressed", String(place === from));
    });
    right[to]?.classList.add("is-asked");
    if (right !== left) right.forEach((word, place) => word.classList.toggle("is-asked", place === to));
  }
  return { root, paint };
}

// The large head over an image, lit where a token looks; brightest where it looks most.

function drawPatches() {
  const { first, rows, columns } = data.grid, scale = 512 / Math.max(image.naturalWidth, image.naturalHeight);
  const root = make("canvas", {
    class: "patches", role: "img",
    width: Math.round(image.naturalWidth * scale), height: Math.round(image.naturalHeight * scale),
  });
  const pen = root.getContext("2d"), wide = root.width / columns, high = root.height / rows;
  const edges = (patch) => [(patch % columns) * wide, Math.floor(patch / columns) * high, wide, high];
  const tokenAt = (row, column) => first + row * columns + column;
  reactToCells(root, rows, columns, (...cell) => say(chosen.from, head.to.places.indexOf(tokenAt(...cell))),
    (...cell) => select(head.from.places.indexOf(tokenAt(...cell)), -1));
  function paint(from) {
    const token = head.from.places[from], size = kind().size[1];
    const given = from < 0 ? averageRows(head.whole, size) : head.whole.slice(token * size, (token + 1) * size);
    const shares = given.slice(first, first + rows * columns), most = Math.max(...shares) || 1;
    pen.drawImage(image, 0, 0, root.width, root.height);
    shares.forEach((share, patch) => {
      pen.fillStyle = `rgba(8, 10, 20, ${0.88 * (1 - Math.sqrt(share / most))})`;
      pen.fillRect(...edges(patch));
    });
    Object.assign(pen, { strokeStyle: "#ff9d2e", lineWidth: 3 });
    if (token >= first && token < first + shares.length) pen.strokeRect(...edges(token - first));
  }
  return { root, paint };
}

// Gold links.

/** Draw a gold link from point to point: wide where it is hit, narrow where missed, dashed where only possible. */
const drawBand = ({ sure, weight }, start, end) => svg("path", {
  d: `M${start.join(" ")}L${end.join(" ")}`, stroke: "#d95f0e", "stroke-opacity": 0.5, "stroke-width": 6 * weight,
  "stroke-dasharray": sure ? "none" : "5 4",
});

/** Draw a gold link around its cells, on a rim that shows on any colour. */
function drawSquare({ rows, columns, sure, weight }, x, y, cell) {
  const thick = 2 * weight, inset = thick / 2 + 1;
  const box = {
    x: x + cell * columns[0] + inset, width: cell * (columns[1] - columns[0]) - 2 * inset,
    y: y + cell * rows[0] + inset, height: cell * (rows[1] - rows[0]) - 2 * inset, fill: "none",
  };
  const dashes = sure ? "none" : "3 2";
  return [
    svg("rect", { ...box, stroke: "#ffffff", "stroke-width": thick + 2, class: "rim" }),
    svg("rect", { ...box, stroke: "#1a1a1a", "stroke-width": thick, class: "gold", "stroke-dasharray": dashes }),
  ];
}

const nameLink = ({ sure, hit }) => `${sure ? "sure" : "possible"} link${hit === null ? "" : hit ? ", hit" : ", missed"}`;

/** Name the gold link that a cell lies in, a sure one first; nothing where there is none. */
function nameLinkAt(query, key) {
  const isInside = ([first, stop], place) => place >= first && place < stop;
  const links = head.marks.filter(({ rows, columns }) => isInside(rows, query) && isInside(columns, key));
  return links.length ? nameLink(links.find(({ sure }) => sure) ?? links[0]) : "";
}

/** Say what a head finds of the gold alignment, and how its links are drawn, of those kinds that there are. */
function explainGold() {
  if (!find("gold")) return;
  const { marks } = head, { findings, explanation } = kind().gold ?? {}, lines = chosen.draw === "lines";
  find("gold").hidden = !marks.length;
  if (!marks.length) return;
  const finding = isRollout(chosen.head) ? "" : findings[chosen.layer][chosen.head];
  find("finding").textContent = finding && `${finding}.`;
  find("hit").textContent = finding && explanation;
  const sorted = [...marks].sort((a, b) => b.sure - a.sure || b.hit - a.hit);
  const names = [...new Set(sorted.map(nameLink))];
  find("legend").hidden = chosen.draw === "text";
  find("legend").replaceChildren(...names.map((name) => {
    const link = marks.find((mark) => nameLink(mark) === name), square = { ...link, rows: [0, 1], columns: [0, 1] };
    const sample = lines ? [drawBand(link, [0, 9], [26, 9])] : drawSquare(square, 0, 0, 18);
    return make("li", {}, svg("svg", { width: lines ? 26 : 18, height: 18, "aria-hidden": "true" }, ...sample), name);
  }));
  const spell = (side, [first, stop]) => `\u201c${side.labels.slice(first, stop).join("")}\u201d`;
  const list = sorted.map((mark) => `${nameLink(mark)}: ${spell(head.from, mark.rows)} to ${spell(head.to, mark.columns)}`);
  find("links-said").textContent = `${list.join("; ")}.`;
}

// Numbers in words, and in tables.

/** Say what is painted. */
function tell(from, to) {
  const { draw, words } = chosen, isFrom = from >= 0;
  if (isFrom || to >= 0) {
    const label = (side, place) => isolate(side.labels[place]);
    const best = listShares(from, to).slice(0, LINES).map(({ query, key, share }) =>
      `${isFrom ? label(head.to, key) : label(head.from, query)} ${write(share)}`);
    const token = isFrom ? `${label(head.from, from)} looks most at` : `${label(head.to, to)} gets most from`;
    return `${token} ${best.join(", ")}.`;
  }
  const shown = {
    lines: `Lines of less than ${Number(leastLine(from, to).toFixed(4))} are left out.`,
    map: "",
    text: `Colours are the attention that each ${words ? "word" : "token"} gets on average.`,
    patches: "Light is the attention that each patch gets on average.",
  }[draw];
  return `${shown} Choose a token to see what it looks at.`;
}

/** Say one number. */
function say(query, key) {
  if (query < 0 || key < 0) return;
  const link = nameLinkAt(query, key), pair = `${isolate(head.from.labels[query])} \u2192 ${isolate(head.to.labels[key])}`;
  find("readout").textContent = `${pair}: ${write(shareOf(query, key))}${link && `, ${link}`}`;
}

/** List shares, the strongest first: all of a token, or the strongest of all. */
function listShares(from, to, least = from >= 0 || to >= 0 ? 0 : head.least) {
  const shares = [];
  visit(from, to, (query, key, share) => { if (share >= least) shares.push({ query, key, share }); });
  if (shares.length < RANKED && least) return listShares(from, to, 0);
  return shares.sort((a, b) => b.share - a.share);
}

/** Fill the table of numbers beside the drawing. */
function rank(from, to) {
  const all = listShares(from, to), lines = all.slice(0, RANKED), isFrom = from >= 0, unit = chosen.words ? "word" : "token";
  const side = isFrom ? head.to : head.from, place = ({ query, key }) => (isFrom ? key : query);
  const columns = isFrom || to >= 0 ? {
    place: (line) => String(place(line) + 1),
    [unit]: (line) => side.labels[place(line)],
    "in the vocabulary": (line) => side.names[place(line)],
  } : { from: ({ query }) => head.from.labels[query], to: ({ key }) => head.to.labels[key] };
  Object.assign(columns, { attention: ({ share }) => write(share), gold: ({ query, key }) => nameLinkAt(query, key) });
  const filled = Object.entries(columns).filter(([, read]) => lines.some(read));
  const cells = (tag, read) => filled.map(([name, text]) =>
    make(tag, name === "attention" ? { class: "number" } : { dir: "auto" }, read(name, text)));
  let caption = "The strongest of this head";
  if (isFrom) caption = `What ${isolate(head.from.labels[from])} looks at`;
  else if (to >= 0) caption = `What looks at ${isolate(head.to.labels[to])}`;
  if (all.length > RANKED && (isFrom || to >= 0)) caption += `: the strongest ${RANKED} of ${all.length}`;
  find("ranking").replaceChildren(
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...cells("th", (name) => name))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...cells("td", (_, text) => text(line))))));
}

/** Show what tables say of the head: its role, and its numbers over a corpus. */
function drawNotes() {
  const notes = isRollout(chosen.head) ? [] : kind().notes;
  find("notes").replaceChildren(...notes.map(({ title, names, heads }) => make("table", {},
    make("caption", {}, title),
    make("tbody", {}, ...heads[chosen.layer][chosen.head].map(([name, text]) =>
      make("tr", {}, make("th", { scope: "row" }, names[name]), make("td", { class: "number" }, text)))))));
}

// The address, which is a link to the head: #head=3.2, of several kinds of attention #head=cross.3.2.

/** Write the head that is shown into the address. */
function writeAddress() {
  const layer = kind().layers[chosen.layer], number = isRollout(chosen.head) ? "rollout" : chosen.head;
  try {
    history.replaceState(null, "", `#head=${data.kinds.length > 1 ? `${kind().name}.` : ""}${layer}.${number}`);
  } catch { /* in a frame without an address of its own, there is nothing to link to */ }
}

/** Read the head off the address: null where it names none, undefined where it names one that is not there. */
function readAddress() {
  if (!location.hash.startsWith("#head=")) return null;
  const [, name, layer, number] = /^#head=(?:([a-z]+)\.)?(\d+)\.(\d+|rollout)$/.exec(location.hash) ?? [];
  const place = name ? data.kinds.findIndex((named) => named.name === name) : chosen.kind, named = data.kinds[place];
  const found = named?.layers.indexOf(Number(layer)) ?? -1, which = number === "rollout" ? named?.heads : Number(number);
  const isRemoved = named?.removed.some(([gone, other]) => gone === found && other === which);
  return found >= 0 && which < countColumns(named) && !isRemoved ? { kind: place, layer: found, head: which } : undefined;
}

/** Follow the address to a head. */
async function followAddress() {
  const place = readAddress();
  if (place) {
    for (const input of document.querySelectorAll("input[name=kind]")) input.checked = Number(input.value) === place.kind;
    await choose(place);
  }
  find("lost").hidden = place !== undefined;
}

// Controls.

/** Save what is shown as a vector graphic, in the colours of paper, which its attributes have. */
function saveDrawing() {
  const root = drawing.picture.cloneNode(true);
  root.insertBefore(svg("g", {}, ...(drawing.drawCells?.() ?? [])), root.querySelector(".frame"));
  root.prepend(svg("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
  root.querySelectorAll("[class]").forEach((element) => element.removeAttribute("class"));
  const name = nameHead(chosen.layer, chosen.head).toLowerCase().replace(/[^a-z0-9]+/g, "-");
  offerFile(`${name}-${chosen.draw}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(root));
}

/** Do something with the new value of a control. */
const onChange = (query, act, name = "change") =>
  document.querySelectorAll(query).forEach((input) => input.addEventListener(name, () => act(input)));

onChange("input[name=kind]", ({ value }) => choose({ kind: Number(value) }));
onChange("input[name=draw]", ({ value }) => choose({ draw: value }));
onChange("#words", ({ checked }) => choose({ words: checked }));
onChange("#special", ({ checked }) => choose({ special: checked }));
onChange("#from", ({ value }) => select(Number(value), chosen.to));
onChange("#to", ({ value }) => select(chosen.from, Number(value)));
onChange("#save", saveDrawing, "click");
onChange("#least", ({ value }) => { chosen.least = (Number(value) / 100) ** 2; repaint(); }, "input");
onChange("#few", ({ checked }) => { chosen.least = checked ? null : leastLine(chosen.from, chosen.to); repaint(); });
addEventListener("hashchange", followAddress);
dark.addEventListener("change", () => { pixels = makePixels(); colourHeads(); repaint(); });

find("still")?.remove(); // which stands in for what follows
Object.assign(chosen, readAddress() ?? {});
drawHeads();
drawHead();
followAddress();
