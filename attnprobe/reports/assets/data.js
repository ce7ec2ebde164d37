// What the page holds: maps packed layer by layer, and what is made of them.

const held = JSON.parse(document.getElementById("data").textContent);

/** Wait for an element that lies behind this script, as the layers do. */
async function element(id) {
  while (!document.getElementById(id)?.nextSibling && document.readyState === "loading")
    await new Promise((done) => setTimeout(done, 10));
  return document.getElementById(id);
}

const KEPT = 64e6, layersKept = new Map();

/** Tell how many layers of a kind are kept unpacked. */
const room = (kind) => Math.max(2, Math.floor(KEPT / (2 * (kind.heads + kind.rollout) * kind.size[0] * kind.size[1])));

/** Give the bytes of a layer: those of the high halves of all its numbers, then those of the low halves. */
function layerBytes(kind, layer) {
  const id = kind.packed[layer], kept = layersKept.get(id);
  layersKept.delete(id);
  const bytes = kept ?? element(id).then((found) => unpacked(found.textContent));
  layersKept.set(id, bytes); // the last one used comes last
  if (layersKept.size > room(kind)) layersKept.delete(layersKept.keys().next().value);
  return bytes;
}

/** Unpack further layers while nobody waits, the nearest first. */
async function unpackAhead(kind, from, wanted) {
  const near = kind.packed.map((_, layer) => layer).sort((one, other) => Math.abs(one - from) - Math.abs(other - from));
  for (const layer of near.slice(0, room(kind))) {
    if (layersKept.has(kind.packed[layer])) continue;
    await new Promise((idle) => (window.requestIdleCallback ?? setTimeout)(idle));
    if (!wanted()) return;
    await layerBytes(kind, layer);
  }
}

/** Give the map of a head as numbers from 0 to 1, query by query. */
async function mapOf(kind, layer, head, scale) {
  const size = kind.size[0] * kind.size[1];
  return readMap(await layerBytes(kind, layer), head * size, size, scale);
}

/** Read a map that begins somewhere: high bytes of all numbers come first, then low ones. */
function readMap(bytes, first, size, scale) {
  const half = bytes.length / 2, rows = new Float32Array(size);
  for (let place = 0, at = first; place < size; place++, at++)
    rows[place] = ((bytes[at] << 8) | bytes[half + at]) / scale;
  return rows;
}

/** Add up attention to the tokens of a word, and average attention from them. */
function grouped(rows, queries, keys) {
  const high = Math.max(...queries) + 1, wide = Math.max(...keys) + 1;
  const found = new Float32Array(high * wide), members = new Float32Array(high);
  for (const group of queries) members[group] += 1;
  let place = 0;
  for (const from of queries) for (const to of keys) found[from * wide + to] += rows[place++] / members[from];
  return found;
}

/** Give a map without some of its rows and columns. */
function without(rows, wide, queries, keys) {
  if (queries.length * keys.length === rows.length) return rows;
  const found = new Float32Array(queries.length * keys.length);
  let place = 0;
  for (const query of queries) for (const key of keys) found[place++] = rows[query * wide + key];
  return found;
}

/**
 * Place gold links among the rows and columns that are shown; those of hidden tokens are left out.
 * "hits" says of each link whether a head finds it, in signs of 0 and 1; of what is no head, nothing.
 */
function placeMarks(gold, hits, sides, shown, words) {
  const ends = (side, { places }, first, stop) => {
    const named = words ? side.words.slice(first, stop) : Array.from({ length: stop - first }, (_, place) => first + place);
    const there = named.map((one) => places.indexOf(one)).filter((place) => place >= 0);
    return there.length ? [Math.min(...there), Math.max(...there) + 1] : null;
  };
  return (gold?.links ?? []).map(([a, b, c, d, sure], number) => {
    const hit = hits ? hits[number] === "1" : null;
    return { rows: ends(sides[0], shown[0], a, b), columns: ends(sides[1], shown[1], c, d), sure: Boolean(sure), hit, weight: gold.weights[hit] };
  }).filter((mark) => mark.rows && mark.columns);
}

/** Name a kind of gold link. */
const nameLink = ({ sure, hit }) => `${sure ? "sure" : "possible"} link${hit === null ? "" : hit ? ", hit" : ", missed"}`;

/** Name the gold link that a cell lies in; nothing where there is none. */
function linkAt(marks, query, key) {
  const inside = ([first, stop], place) => place >= first && place < stop;
  const found = marks.filter(({ rows, columns }) => inside(rows, query) && inside(columns, key));
  return found.length ? nameLink(found.find(({ sure }) => sure) ?? found[0]) : "";
}

/** Say what is shown of one side: its labels, and which of its tokens are left. */
function shownSide(side, words, special) {
  const labels = words ? side.wordLabels : side.labels;
  const hidden = words ? side.specialWords : side.special;
  const places = labels.map((_, place) => place).filter((place) => special || !hidden[place]);
  const names = places.map((place) => (words || side.names[place] === labels[place] ? "" : side.names[place]));
  const continues = places.map((place) => !words && Boolean(side.continues?.[place]));
  const first = words ? side.words[side.second] : side.second, before = side.second ? places.filter((place) => place < first).length : 0;
  return { places, second: before < places.length ? before : 0, labels: places.map((place) => labels[place]), names, continues, all: labels.length };
}
