// What the page of a sentence and that of a report share.

const find = (id) => document.getElementById(id);

/** Make an element of HTML; text is text, never markup. */
function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

/** Make an element of SVG. */
function svg(name, attributes = {}, ...inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

/** Unpack base64 of what zlib compressed. */
async function unpack(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Read the map of a head out of those of several: high bytes of all numbers come first, then low ones. */
function readMap(bytes, first, size, scale) {
  const half = bytes.length / 2, rows = new Float32Array(size);
  for (let place = 0; place < size; place++)
    rows[place] = ((bytes[first + place] << 8) | bytes[half + first + place]) / scale;
  return rows;
}

/** Give a text to the reader as a file. */
function offerFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
