// Drawings: SVG for lines and labels, canvas for what has very many cells.

const LIGHT = [[255, 255, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]];
const DARK = [[22, 26, 32], [24, 58, 104], [36, 108, 184], [112, 178, 240], [232, 244, 255]];
const SVG = "http://www.w3.org/2000/svg";
const LINE = 20, BETWEEN = 620, CLOSEST = 70, SHADES = 20, FAINTEST = 0.01, LONGEST = 20;
const BAND = 6; // pixels across a band that is neither hit nor missed
const SHEET = 680; // pixels across a sheet of paper

const printing = matchMedia("print"), dark = matchMedia("(prefers-color-scheme: dark)");
const ramp = () => (dark.matches && !printing.matches ? DARK : LIGHT);

/** Mix the colour of a share of attention; steps of colour are steps of its square root. */
function colour(share, from = ramp()) {
  const place = Math.min(1, Math.sqrt(Math.max(0, share))) * (from.length - 1);
  const low = Math.min(Math.floor(place), from.length - 2);
  return from[low].map((part, channel) => Math.round(part + (from[low + 1][channel] - part) * (place - low)));
}

const STEPS = 1000, tables = new Map();

/** Give the pixels of shares in steps of 1/1000, each as one number. */
function pixelsOf(from) {
  if (!tables.has(from)) {
    const shades = new Uint8ClampedArray(4 * (STEPS + 1));
    for (let step = 0; step <= STEPS; step++) shades.set([...colour(step / STEPS, from), 255], step * 4);
    tables.set(from, new Uint32Array(shades.buffer));
  }
  return tables.get(from);
}

/** Fill a canvas with a map, one pixel a cell; the style sheet makes the cells large. */
function fillCanvas(canvas, wide, high, share) {
  canvas.width = wide;
  canvas.height = high;
  const image = new ImageData(wide, high), pixels = new Uint32Array(image.data.buffer), colours = pixelsOf(ramp());
  for (let place = 0; place < pixels.length; place++) pixels[place] = colours[Math.round(Math.min(1, share(place)) * STEPS)];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Make an SVG element. */
function svg(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "13px Helvetica, Arial, sans-serif";

const cut = (label) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}\u2026` : label);
const widest = (labels) => Math.max(20, ...labels.map((label) => ruler.measureText(label).width));

/** Begin a picture of its own, which is also what is saved. */
function picture(width, height, title) {
  const root = svg("svg", {
    xmlns: SVG, width: Math.ceil(width), height: Math.ceil(height),
    viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, role: "img",
    "font-family": "Helvetica, Arial, sans-serif", "font-size": "13",
  });
  root.append(svg("title", {}, title));
  return root;
}

/** Little attention has a thin line: up to a width of 1 a browser draws thousands of them at once. */
const thickness = (shade) => (0.8 + Math.max(0, shade - 4) * 0.1).toFixed(1);

/** Mark a piece that goes on with a word. */
const pieces = (side) => side.labels.map((label, place) => (side.continues[place] ? `\u00b7${cut(label)}` : cut(label)));

/**
 * Draw lines between two columns of tokens.
 * Returns the picture, what paints the lines of one token, or of all, and what shows another head between them.
 */
function drawLines(seen, title, room, choose) {
  const left = pieces(seen.from), right = pieces(seen.to);
  const start = widest(left) + 16, end = widest(right) + 16;
  const stop = start + Math.max(CLOSEST, Math.min(BETWEEN, room - start - end - 8));
  const wide = stop + end, top = 26;
  const root = picture(wide, top + Math.max(left.length, right.length) * LINE + 8, title);
  const shades = svg("g"), strokes = svg("g", { fill: "none", class: "strokes" });
  root.append(svg("text", { x: start - 8, y: 14, "text-anchor": "end", fill: "#666666", class: "pale" }, "from"));
  const middle = (place) => top + place * LINE + LINE / 2;
  const bands = svg("g", { fill: "none" });
  const drawBands = () => bands.replaceChildren(...seen.marks.map((mark) => band(mark,
    [start, middle((mark.rows[0] + mark.rows[1] - 1) / 2)], [stop, middle((mark.columns[0] + mark.columns[1] - 1) / 2)])));
  drawBands();
  root.append(svg("text", { x: stop + 8, y: 14, fill: "#666666", class: "pale" }, "to"), shades, bands, strokes);
  const sides = [[left, "end", start - 8, 0, start], [right, "start", stop + 8, stop, wide - stop]];
  const boxes = sides.map(([labels, anchor, x, box, width], side) => labels.map((label, place) => {
    const behind = svg("rect", {
      x: box, y: top + place * LINE, width, height: LINE - 1, fill: "#2171b5", "fill-opacity": 0, class: "mark",
    });
    const text = svg("text", {
      x, y: middle(place) + 4.5, "text-anchor": anchor, fill: "#1a1a1a", class: "token", "unicode-bidi": "isolate",
    }, label);
    const area = svg("rect", { x: box, y: top + place * LINE, width, height: LINE, fill: "none", "pointer-events": "all", class: "area" });
    area.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && choose(side, place, false));
    area.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && choose(side, -1, false));
    area.addEventListener("click", () => choose(side, place, true));
    shades.append(behind);
    root.append(text, area);
    return behind;
  }));
  const shade = (box, value) => { if (box.getAttribute("fill-opacity") !== String(value)) box.setAttribute("fill-opacity", value); };
  function paint(from, to, least) {
    const paths = new Array(SHADES + 1).fill(""), alone = from >= 0 || to >= 0;
    let left = 0;
    for (let query = Math.max(from, 0); query < (from >= 0 ? from + 1 : seen.high); query++) {
      const begin = `M${start} ${middle(query)}L${stop} `;
      for (let key = Math.max(to, 0); key < (to >= 0 ? to + 1 : seen.wide); key++) {
        const share = seen.rows[query * seen.wide + key];
        if (share < least - 1e-6) left += share > 0;
        else // a token alone can be seen better
          paths[Math.min(SHADES, Math.ceil((alone ? Math.sqrt(share) : share) * SHADES))] += begin + middle(key);
      }
    }
    strokes.replaceChildren(...paths.flatMap((path, shade) => path ? [
      svg("path", { d: path, stroke: "#08306b", "stroke-opacity": shade / SHADES, "stroke-width": thickness(shade) }),
    ] : []));
    boxes[0].forEach((box, query) => shade(box, query === from ? 0.35 : to >= 0 ? 0.8 * Math.sqrt(seen.rows[query * seen.wide + to]) : 0));
    boxes[1].forEach((box, key) => shade(box, key === to ? 0.35 : from >= 0 ? 0.8 * Math.sqrt(seen.rows[from * seen.wide + key]) : 0));
    return left;
  }
  return { root, svg: root, paint, update: (next) => { seen = next; drawBands(); } };
}

/** Draw a gold link from point to point: wide where it is hit, narrow where it is missed, dashed where it is possible. */
function band({ sure, weight }, start, end) {
  return svg("path", {
    d: `M${start.join(" ")}L${end.join(" ")}`, stroke: "#d95f0e", "stroke-opacity": 0.5, "stroke-width": BAND * weight,
    ...(sure ? {} : { "stroke-dasharray": "5 4" }),
  });
}

/** Draw a gold link around its cells, on a rim that shows on any colour: heavy where it is hit, thin where it is missed. */
function square({ rows, columns, sure, weight }, x, y, cell) {
  const thick = 2 * weight, inset = thick / 2 + 1;
  const box = {
    x: x + cell * columns[0] + inset, y: y + cell * rows[0] + inset, width: cell * (columns[1] - columns[0]) - 2 * inset,
    height: cell * (rows[1] - rows[0]) - 2 * inset, fill: "none",
  };
  return [
    svg("rect", { ...box, stroke: "#ffffff", "stroke-width": thick + 2, class: "rim" }),
    svg("rect", { ...box, stroke: "#1a1a1a", "stroke-width": thick, class: "gold", ...(sure ? {} : { "stroke-dasharray": "3 2" }) }),
  ];
}

/** Draw what a kind of mark looks like, for a legend. */
function sample(mark, lines) {
  const root = svg("svg", { width: lines ? 26 : 18, height: 18, "aria-hidden": "true" });
  root.append(...(lines ? [band(mark, [0, 9], [26, 9])] : square({ ...mark, rows: [0, 1], columns: [0, 1] }, 0, 0, 18)));
  return root;
}

/** Draw a map: labels as SVG, cells on a canvas between them; cells grow with the room, up to twice their size. */
function drawMap(seen, room, title, hover, choose) {
  const left = pieces(seen.from), above = pieces(seen.to);
  const least = Math.max(left.length, above.length) > 60 ? 13 : 18;
  const x = Math.max(widest(left), widest(["query"])) + 12, y = widest(above) + 12, behind = widest(["key"]) + 12;
  const cell = Math.max(least, Math.min(2 * least, Math.floor((room - x - behind) / above.length)));
  const wide = cell * above.length, high = cell * left.length;
  const root = picture(x + wide + behind, y + high + 8, title);
  const small = cell < 16 ? 11 : 13;
  left.forEach((label, place) => root.append(svg("text", {
    x: x - 6, y: y + cell * (place + 0.5) + small / 3, "text-anchor": "end", fill: "#1a1a1a", class: "token",
    "font-size": small,
  }, label)));
  above.forEach((label, place) => root.append(svg("text", {
    transform: `translate(${x + cell * (place + 0.5) + small / 3} ${y - 6}) rotate(-90)`, fill: "#1a1a1a",
    class: "token", "font-size": small,
  }, label)));
  for (const [label, at, anchor] of [["query", x - 6, "end"], ["key", x + wide + 6, "start"]])
    root.append(svg("text", { x: at, y: y - 6, "text-anchor": anchor, fill: "#666666", class: "pale" }, label));
  const frame = svg("rect", { x, y, width: wide, height: high, fill: "none", stroke: "#999999", class: "frame" });
  const mark = svg("rect", { width: cell, height: cell, fill: "none", stroke: "#d95f0e", "stroke-width": 2, visibility: "hidden" });
  root.append(frame);
  if (seen.same && seen.from.second) { // where the second of two texts begins
    const d = `M${x - 6} ${y + cell * seen.from.second}h${wide + 6}M${x + cell * seen.to.second} ${y - 6}v${high + 6}`;
    root.append(svg("path", { d, stroke: "#ffffff", "stroke-width": 3, class: "rim" }), svg("path", { d, stroke: "#666666", class: "part" }));
  }
  const gold = svg("g");
  const drawSquares = () => gold.replaceChildren(...seen.marks.flatMap((one) => square(one, x, y, cell)));
  drawSquares();
  root.append(gold, mark);
  const canvas = document.createElement("canvas"), box = document.createElement("div");
  box.className = "map";
  box.append(canvas, root);
  box.style.setProperty("--fit", Math.min(1, SHEET / (x + wide + behind)));
  Object.assign(canvas.style, { left: `${x}px`, top: `${y}px`, width: `${wide}px`, height: `${high}px` });
  canvas.setAttribute("aria-hidden", "true");
  const label = () => `${seen.title}. Arrow keys go from cell to cell, Enter chooses a row.`;
  for (const [name, value] of [["tabindex", "0"], ["role", "application"], ["aria-roledescription", "map"], ["aria-label", label()]]) box.setAttribute(name, value);
  let at = null; // the cell that the keyboard is at
  const show = (query, key) => {
    mark.setAttribute("visibility", "visible");
    mark.setAttribute("x", x + cell * key);
    mark.setAttribute("y", y + cell * query);
    hover(query, key);
  };
  box.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -seen.wide], End: [0, seen.wide] }[event.key];
    if (step) {
      const [query, key] = at ? [at[0] + step[0], at[1] + step[1]] : [0, 0];
      at = [Math.max(0, Math.min(left.length - 1, query)), Math.max(0, Math.min(above.length - 1, key))];
      show(...at);
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (at && (event.key === "Enter" || event.key === " ")) choose(...at);
    else return;
    event.preventDefault();
  });
  box.addEventListener("blur", () => mark.setAttribute("visibility", "hidden"));
  const under = (event) => {
    const place = root.getBoundingClientRect();
    const key = Math.floor((event.clientX - place.left - x) / cell), query = Math.floor((event.clientY - place.top - y) / cell);
    return key >= 0 && query >= 0 && key < above.length && query < left.length ? [query, key] : null;
  };
  root.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (found) show(...found);
    else mark.setAttribute("visibility", "hidden");
  });
  root.addEventListener("pointerleave", () => mark.setAttribute("visibility", "hidden"));
  root.addEventListener("click", (event) => { const found = under(event); if (found) choose(...found); });
  function paint(from, to) {
    const off = (place) => (from >= 0 && Math.floor(place / seen.wide) !== from) || (to >= 0 && place % seen.wide !== to);
    fillCanvas(canvas, seen.wide, seen.high, (place) => (off(place) ? 0 : seen.rows[place]));
    return 0;
  }
  /** Give the cells as vectors, one path for each colour. */
  function cells() {
    const paths = new Map();
    seen.rows.forEach((share, place) => {
      const mixed = colour(Math.round(Math.sqrt(share) * 48) ** 2 / 48 ** 2, LIGHT);
      const name = `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
      const at = `M${x + cell * (place % seen.wide)} ${y + cell * Math.floor(place / seen.wide)}h${cell}v${cell}h-${cell}z`;
      if (name !== "#ffffff") paths.set(name, (paths.get(name) ?? "") + at);
    });
    return [...paths].map(([fill, d]) => svg("path", { d, fill, "shape-rendering": "crispEdges" }));
  }
  return { root: box, svg: root, cells, paint, update: (next) => { seen = next; drawSquares(); box.setAttribute("aria-label", label()); } };
}

/** Draw an image, lit where a token looks; brightest where it looks most. */
function drawPatches(seen, grid, image, title, hover, choose) {
  const canvas = document.createElement("canvas");
  canvas.className = "patches";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  const scale = 512 / Math.max(image.naturalWidth, image.naturalHeight);
  canvas.width = Math.round(image.naturalWidth * scale);
  canvas.height = Math.round(image.naturalHeight * scale);
  const pen = canvas.getContext("2d"), wide = canvas.width / grid.columns, high = canvas.height / grid.rows;
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / box.width * grid.columns);
    const row = Math.floor((event.clientY - box.top) / box.height * grid.rows);
    const inside = column >= 0 && row >= 0 && column < grid.columns && row < grid.rows;
    return inside ? grid.first + row * grid.columns + column : -1;
  };
  canvas.addEventListener("pointermove", (event) => { const place = under(event); if (place >= 0) hover(place); });
  canvas.addEventListener("click", (event) => { const place = under(event); if (place >= 0) choose(place); });
  function paint(from) {
    const shares = new Float32Array(grid.rows * grid.columns);
    shares.forEach((_, patch) => {
      const key = grid.first + patch;
      if (from >= 0) shares[patch] = seen.rows[from * seen.wide + key];
      else for (let query = 0; query < seen.high; query++) shares[patch] += seen.rows[query * seen.wide + key] / seen.high;
    });
    const most = Math.max(...shares) || 1;
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    shares.forEach((share, patch) => {
      pen.fillStyle = `rgba(8, 10, 20, ${0.88 * (1 - Math.sqrt(share / most))})`;
      pen.fillRect((patch % grid.columns) * wide, Math.floor(patch / grid.columns) * high, wide, high);
    });
    const own = from - grid.first;
    if (own >= 0 && own < shares.length) {
      pen.strokeStyle = "#ff9d2e";
      pen.lineWidth = 3;
      pen.strokeRect((own % grid.columns) * wide + 1.5, Math.floor(own / grid.columns) * high + 1.5, wide - 3, high - 3);
    }
    return most;
  }
  return { root: canvas, paint };
}
