/* Draws the charts. Their colours are CSS variables, so that theme and print need no drawing. */
"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const plots = JSON.parse(byId("figures").textContent);
  const arms = new Map(JSON.parse(byId("trial-data").textContent).arms.map((arm) => [arm.plotted, arm]));
  const theme = byId("theme");
  const kinds = ["hardware", "implementation", "variant"];
  const chosen = Object.fromEntries(kinds.map((kind) => [kind, byId(`plot-${kind}`)]));

  function draw(key) {
    const div = document.querySelector(`div.plot[data-plot="${key}"]`);
    const boxes = [...document.querySelectorAll(`input[data-plot="${key}"]`)];
    const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    const fits = (row) => {
      const arm = row.arm ?? row.name;
      return !hidden.has(row.name) && Object.entries(chosen).every(([property, select]) =>
        !select || !select.value || !arms.has(arm) || arms.get(arm)[property] === select.value);
    };
    const { datasets, ...rest } = plots[key];
    const shown = Object.entries(datasets).map(([name, rows]) => [name, rows.filter(fits)]);
    const specification = { ...rest, datasets: Object.fromEntries(shown) };
    // `ast` interprets expressions, so that the page's policy needs no eval.
    return vegaEmbed(div, specification, { mode: "vega-lite", renderer: "svg", ast: true, actions: false });
  }

  /* One chart at a time, so that the page stays responsive. */
  async function drawAll() {
    for (const key of Object.keys(plots)) {
      await draw(key);
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    root.dataset.drawn = "yes";
  }

  function storedTheme(value) {
    try { // a page in a sandboxed frame has no storage
      if (value === undefined) return localStorage.getItem("rnnsweep-theme") || "";
      localStorage.setItem("rnnsweep-theme", value);
    } catch { /* the choice is lost with the page */ }
    return value || "";
  }

  function applyTheme(value) {
    if (value) root.dataset.theme = value;
    else delete root.dataset.theme;
  }

  theme.value = storedTheme();
  applyTheme(theme.value);
  theme.addEventListener("change", () => applyTheme(storedTheme(theme.value)));
  for (const select of Object.values(chosen)) if (select) select.addEventListener("change", drawAll);
  document.addEventListener("change", (event) => {
    if (event.target.dataset.plot) draw(event.target.dataset.plot);
  });

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("figure details:not(.shown):not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  drawAll();
})();
