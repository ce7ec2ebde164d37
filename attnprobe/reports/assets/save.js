// What is shown, as a file.

/** Give what is shown as a vector graphic, as on paper. */
function vectors(drawing) {
  const root = drawing.svg.cloneNode(true);
  if (drawing.cells) root.insertBefore(svg("g", {}), root.querySelector(".frame")).append(...drawing.cells());
  root.insertBefore(svg("rect", { width: "100%", height: "100%", fill: "#ffffff" }), root.children[1]);
  root.querySelectorAll(".area").forEach((area) => area.remove());
  root.querySelectorAll("[class]").forEach((one) => one.removeAttribute("class"));
  return root;
}

/** Offer a file for download. */
function offer(content, name) {
  const address = URL.createObjectURL(content);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const nameFile = (title, draw, ending) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}-${draw}.${ending}`;

/** Save what is shown as a vector graphic. */
function saveSvg(drawing, title, draw) {
  const text = new XMLSerializer().serializeToString(vectors(drawing));
  offer(new Blob([text], { type: "image/svg+xml" }), nameFile(title, draw, "svg"));
}

/** Save what is shown as pixels, two to each of the screen. */
async function savePng(drawing, title, draw) {
  const root = vectors(drawing), canvas = document.createElement("canvas");
  canvas.width = 2 * root.getAttribute("width");
  canvas.height = 2 * root.getAttribute("height");
  const text = new XMLSerializer().serializeToString(root);
  const image = Object.assign(new Image(), { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}` });
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((content) => offer(content, nameFile(title, draw, "png")), "image/png");
}
