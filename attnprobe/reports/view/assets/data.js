// What the page holds: maps packed layer by layer, and what is made of them.

/** Wait for an element that lies behind this script, as the layers do. */
async function element(id) {
  while (!document.getElementById(id)?.nextSibling && document.readyState === "loading")
    await new Promise((done) => setTimeout(done, 10));
  return document.getElementById(id);
}

const layersKept = new Map();

/** Give the bytes of a layer: those of the high halves of all its numbers, then those of the low halves. */
function layerBytes(id) {
  let bytes = layersKept.get(id);
  layersKept.delete(id);
  bytes ??= element(id).then((found) => unpacked(found.textContent));
  layersKept.set(id, bytes); // the last one used comes last
  if (layersKept.size > 8) layersKept.delete(layersKept.keys().next().value);
  return bytes;
}

/** Give the map of a head as numbers from 0 to 1, query by query. */
async function mapOf(kind, layer, head, scale) {
  const bytes = await layerBytes(kind.packed[layer]);
  const size = kind.size[0] * kind.size[1];
  const half = bytes.length / 2;
  const rows = new Float32Array(size);
  for (let place = 0, at = head * size; place < size; place++, at++)
    rows[place] = ((bytes[at] << 8) | bytes[half + at]) / scale;
  return rows;
}

/** Add up attention to the tokens of a word, and average attention from them. */
function grouped(rows, queries, keys) {
  const high = Math.max(...queries) + 1, wide = Math.max(...keys) + 1;
  const found = new Float32Array(high * wide), members = new Float32Array(high);
  queries.forEach((group) => { members[group] += 1; });
  queries.forEach((from, query) => {
    keys.forEach((to, key) => { found[from * wide + to] += rows[query * keys.length + key] / members[from]; });
  });
  return found;
}

/** Give a map without some of its rows and columns. */
function without(rows, wide, queries, keys) {
  const found = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => {
    keys.forEach((key, column) => { found[row * keys.length + column] = rows[query * wide + key]; });
  });
  return found;
}

/** Say what is shown of one side: its labels, and which of its tokens are left. */
function shownSide(side, words, special) {
  const labels = words ? side.wordLabels : side.labels;
  const hidden = words ? side.specialWords : side.special;
  const places = labels.map((_, place) => place).filter((place) => special || !hidden[place]);
  const names = places.map((place) => (words || side.names[place] === labels[place] ? "" : side.names[place]));
  const continues = places.map((place) => !words && Boolean(side.continues?.[place]));
  return { places, labels: places.map((place) => labels[place]), names, continues, all: labels.length };
}
