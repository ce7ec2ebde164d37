"use strict";
for (const block of document.querySelectorAll("script.spec")) {
  const place = document.getElementById(block.dataset.chart);
  // Expressions are walked as trees and never compiled, so that the policy needs no 'unsafe-eval'.
  window.vegaEmbed(place, JSON.parse(block.textContent), {
    mode: "vega-lite",
    ast: true,
    renderer: "canvas",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
    loader: { http: false, target: "_blank" },
  }).catch((error) => {
    place.textContent = "This chart could not be drawn: " + error.message;
  });
}
