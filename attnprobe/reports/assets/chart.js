"use strict";

/** List the marks of a chart that say something, row by row: what they say, and their box on the page. */
function listMarks(view) {
  const found = new Map(), [left, top] = view.origin();
  const walk = (mark, x, y) => {
    if (mark.role?.startsWith("axis") || mark.role?.startsWith("legend") || mark.role?.startsWith("title")) return;
    for (const item of mark.items) {
      if (mark.marktype === "group") {
        for (const inner of item.items ?? []) walk(inner, x + (item.x ?? 0), y + (item.y ?? 0));
      } else if (item.description && mark.aria !== false && item.opacity !== 0) {
        const own = mark.marktype === "line" || mark.marktype === "area"; // whose items are points of one mark
        const box = own ? { x1: item.x - 3, x2: item.x + 3, y1: item.y - 3, y2: item.y + 3 } : item.bounds;
        const [x1, x2, y1, y2] = [x + box.x1, x + box.x2, y + box.y1, y + box.y2];
        const said = String(item.description), key = `${said}|${Math.round((x1 + x2) / 2)}|${Math.round((y1 + y2) / 2)}`;
        if (Number.isFinite(x1 + x2 + y1 + y2)) found.set(key, { said, x: (x1 + x2) / 2, y: (y1 + y2) / 2, box: [x1 + left, y1 + top, x2 - x1, y2 - y1] });
      }
    }
  };
  walk(view.scenegraph().root, 0, 0);
  return [...found.values()].sort((one, other) => (Math.abs(one.y - other.y) > 2 ? one.y - other.y : one.x - other.x));
}

/** Find the nearest mark in a direction: straight ahead before aside; null where there is none. */
function nextMark(marks, from, across, down) {
  let best = null, least = Infinity;
  for (const one of marks) {
    const ahead = (one.x - from.x) * across + (one.y - from.y) * down;
    const aside = Math.abs((one.x - from.x) * down) + Math.abs((one.y - from.y) * across);
    if (ahead > 0.5 && ahead + 3 * aside < least) { best = one; least = ahead + 3 * aside; }
  }
  return best;
}

/** Let the keyboard walk the marks of a chart and pin what they say; a click pins too. */
function walkMarks(figure, view, find) {
  const marks = listMarks(view), pinned = new Map();
  let here = null;
  const ring = document.createElement("div");
  ring.className = "mark";
  ring.hidden = true;
  figure.append(ring);
  const inside = figure.querySelector("canvas");
  function frame(made, one) {
    const [x, y, wide, high] = one.box, pad = 3;
    const box = { left: inside.offsetLeft + x - pad, top: inside.offsetTop + y - pad, width: Math.max(6, wide) + 2 * pad, height: Math.max(6, high) + 2 * pad };
    for (const [name, length] of Object.entries(box)) made.style.setProperty(name, `${length}px`);
  }
  function go(one) {
    if (!one) return;
    here = one;
    ring.hidden = false;
    frame(ring, one);
    find("said").textContent = pinned.has(one) ? `${one.said} (pinned)` : one.said;
    ring.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  function pin(one) {
    if (pinned.has(one)) {
      pinned.get(one).forEach((made) => made.remove());
      pinned.delete(one);
    } else {
      const line = document.createElement("li"), edge = document.createElement("div");
      line.textContent = one.said;
      edge.className = "mark is-pinned";
      frame(edge, one);
      figure.append(edge);
      find("pinned").append(line);
      pinned.set(one, [line, edge]);
    }
    find("pinned").hidden = !pinned.size;
    find("said").textContent = `${one.said} (${pinned.has(one) ? "pinned" : "not pinned"})`;
  }
  figure.addEventListener("keydown", (event) => {
    if (!marks.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    const at = marks.indexOf(here), far = { Home: 0, End: marks.length - 1, PageDown: Math.min(at + 1, marks.length - 1), PageUp: Math.max(at - 1, 0) }[event.key];
    if (step) go(here ? nextMark(marks, here, ...step) : marks[0]);
    else if (far !== undefined) go(marks[far]);
    else if ((event.key === "Enter" || event.key === " ") && here) pin(here);
    else if (event.key === "Escape") { [...pinned.keys()].forEach(pin); ring.hidden = true; here = null; find("said").textContent = ""; }
    else return;
    event.preventDefault();
  });
  view.addEventListener("click", (event, item) => {
    const one = item && marks.find(({ said }) => said === item.description);
    if (one) { go(one); pin(one); }
  });
  const cue = () => { find("cue").hidden = figure.scrollWidth <= figure.clientWidth + 1; };
  addEventListener("resize", cue);
  cue();
  figure.dataset.marks = marks.length; // for whoever waits for it
}

for (const block of document.querySelectorAll("script.spec")) {
  const find = (name) => document.getElementById(`${name}-${block.dataset.chart}`);
  const place = find("chart");
  // Expressions are walked as trees and never compiled, so that the policy needs no 'unsafe-eval'.
  window.vegaEmbed(place, JSON.parse(block.textContent), {
    mode: "vega-lite",
    ast: true,
    renderer: "canvas",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
    loader: { http: false, target: "_blank" },
  }).then(({ view }) => walkMarks(place, view, find)).catch((error) => {
    place.textContent = "This chart could not be drawn: " + error.message;
  });
}
