// Running text: the sentence as it reads, coloured by what the token under the pointer or the focus looks at.

/** Tell whether black or white reads better on a colour, by the luminance that WCAG defines. */
function inkOn(rgb) {
  const [red, green, blue] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/**
 * Draw the tokens as running text; those that attend are buttons, and where both sides are the same, so are all.
 * A bar below a token is as long as its share, so that colour is not the only sign.
 */
function drawText(seen, title, choose) {
  const root = make("div", { class: "reading", role: "group", "aria-label": title });
  const same = seen.same;
  const words = (side, pressable) => side.labels.map((label, place) => {
    const one = pressable ? make("button", { type: "button", tabindex: place ? "-1" : "0" }) : make("span");
    one.className = side.continues[place] ? "word goes-on" : "word";
    one.append(make("bdi", {}, label));
    return one;
  });
  const from = words(seen.from, true), to = same ? from : words(seen.to, false);
  const line = (all) => make("p", { dir: "auto" }, ...all.flatMap((one, place) => (place && !one.classList.contains("goes-on") ? [" ", one] : [one])));
  const named = (name, all) => make("div", {}, make("p", { class: "pale" }, name), line(all));
  root.append(...(same ? [line(from)] : [named("from", from), named("to", to)]));
  from.forEach((one, place) => {
    one.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && choose(place, false));
    one.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && choose(-1, false));
    one.addEventListener("focus", () => choose(place, false));
    one.addEventListener("blur", () => choose(-1, false));
    one.addEventListener("click", () => choose(place, true));
    one.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -place, End: from.length - 1 - place }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = from[Math.max(0, Math.min(from.length - 1, place + step))];
      one.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });
  function tint(one, share) {
    const rgb = colour(share);
    one.style.setProperty("background-color", `rgb(${rgb.join(" ")})`);
    one.style.setProperty("color", inkOn(rgb));
    one.style.setProperty("--share", share);
  }
  function clear(one) {
    for (const name of ["background-color", "color", "--share"]) one.style.removeProperty(name);
  }
  function paint(query, key) {
    const back = query < 0 && key >= 0;
    if (!same) (back ? to : from).forEach(clear);
    (back ? from : to).forEach((one, place) => {
      let share = 0;
      if (back) share = seen.rows[place * seen.wide + key];
      else if (query >= 0) share = seen.rows[query * seen.wide + place];
      else for (let row = 0; row < seen.high; row++) share += seen.rows[row * seen.wide + place] / seen.high;
      tint(one, share);
    });
    from.forEach((one, place) => one.classList.toggle("is-asked", place === query || (same && back && place === key)));
    if (!same) to.forEach((one, place) => one.classList.toggle("is-asked", place === key));
    from.forEach((one, place) => one.setAttribute("aria-pressed", String(place === query)));
    return 0;
  }
  return { root, paint, update: (next) => { seen = next; root.setAttribute("aria-label", next.title); } };
}
