/* Draws the charts, and opens all details for print. */
"use strict";
(async () => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  const charts = JSON.parse(document.getElementById("charts").textContent);
  for (const [key, specification] of Object.entries(charts)) {
    // `ast` interprets expressions, so that the page's policy needs no eval.
    const options = { mode: "vega-lite", renderer: "svg", ast: true, actions: false };
    await vegaEmbed(`#plot-${key}`, specification, options);
    await new Promise((resolve) => setTimeout(resolve, 0)); // so that the page stays responsive
  }
  document.documentElement.dataset.drawn = "yes";
})();
