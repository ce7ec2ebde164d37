"use strict";

const find = (id) => document.getElementById(id);

/** List the marks of a chart that say something, row by row: their text, their middle and their box on the page. */
function listMarks(view) {
  const marks = new Map(), [left, top] = view.origin();
  const visit = (mark, x, y) => {
    if (/^(axis|legend|title)/.test(mark.role ?? "")) return;
    for (const item of mark.items) {
      if (mark.marktype === "group") {
        for (const inner of item.items ?? []) visit(inner, x + (item.x ?? 0), y + (item.y ?? 0));
      } else if (item.description && mark.aria !== false && item.opacity !== 0) {
        const isPoint = mark.marktype === "line" || mark.marktype === "area"; // whose items are points of one mark
        const { x1, x2, y1, y2 } = isPoint ? { x1: item.x - 3, x2: item.x + 3, y1: item.y - 3, y2: item.y + 3 } : item.bounds;
        const text = String(item.description), centre = [x + (x1 + x2) / 2, y + (y1 + y2) / 2];
        const box = [x + x1 + left, y + y1 + top, x2 - x1, y2 - y1];
        if (Number.isFinite(centre[0] + centre[1])) marks.set(`${text}|${centre.map(Math.round)}`, { text, centre, box });
      }
    }
  };
  visit(view.scenegraph().root, 0, 0);
  return [...marks.values()].sort(({ centre: [x, y] }, { centre: [right, below] }) =>
    (Math.abs(y - below) > 2 ? y - below : x - right));
}

/** Find the nearest mark in a direction: straight ahead before aside; undefined where there is none. */
function findNext(marks, { centre: [x, y] }, across, down) {
  let next, least = Infinity;
  for (const mark of marks) {
    const [right, below] = [mark.centre[0] - x, mark.centre[1] - y];
    const ahead = right * across + below * down, aside = Math.abs(right * down) + Math.abs(below * across);
    if (ahead > 0.5 && ahead + 3 * aside < least) {
      next = mark;
      least = ahead + 3 * aside;
    }
  }
  return next;
}

/** Let the keyboard walk the marks of a chart, and a click go to one; a ring is around it, and its text below. */
function walkMarks(figure, view) {
  const marks = listMarks(view), ring = document.createElement("div"), canvas = figure.querySelector("canvas");
  let here = null;
  Object.assign(ring, { className: "mark", hidden: true });
  figure.append(ring);
  function go(mark) {
    if (!mark) return;
    here = mark;
    ring.hidden = false;
    const [x, y, wide, high] = mark.box;
    const place = { left: canvas.offsetLeft + x - 3, top: canvas.offsetTop + y - 3, width: Math.max(6, wide) + 6, height: Math.max(6, high) + 6 };
    for (const [name, length] of Object.entries(place)) ring.style.setProperty(name, `${length}px`);
    find("text").textContent = mark.text;
    ring.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  figure.addEventListener("keydown", (event) => {
    if (!marks.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    const at = marks.indexOf(here), last = marks.length - 1;
    const place = { Home: 0, End: last, PageDown: Math.min(at + 1, last), PageUp: Math.max(at - 1, 0) }[event.key];
    if (!step && place === undefined) return;
    event.preventDefault();
    go(step ? (here ? findNext(marks, here, ...step) : marks[0]) : marks[place]);
  });
  view.addEventListener("click", (_, item) => go(item && marks.find(({ text }) => text === item.description)));
  figure.dataset.marks = marks.length; // for whoever waits for it
}

const place = find("chart");
// Expressions are walked as trees and never compiled, so that the policy needs no 'unsafe-eval'.
window.vegaEmbed(place, JSON.parse(find("spec").textContent), {
  mode: "vega-lite",
  ast: true,
  renderer: "canvas",
  actions: false,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
  loader: { http: false, target: "_blank" },
}).then(({ view }) => walkMarks(place, view)).catch((error) => {
  place.textContent = "This chart could not be drawn: " + error.message;
});
