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

/** Save what is shown as a vector graphic. */
function saveSvg(drawing, title, draw) {
  const text = new XMLSerializer().serializeToString(vectors(drawing));
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const name = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}-${draw}.svg`;
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
