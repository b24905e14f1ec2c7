/* Draws the charts. Their colours are CSS variables, so that theme and print need no drawing. */
"use strict";
(() => {
  const { root, byId, data, fits, fitsBlock, listeners } = report;
  const plots = JSON.parse(byId("figures").textContent);
  const arms = new Map(data.arms.map((arm) => [arm.plotted, arm]));

  for (const [key, { datasets }] of Object.entries(plots)) {
    const rows = Object.values(datasets).flat();
    if (!rows.some((row) => "block" in row || row.pairs)) byId(`figure-${key}`).classList.add("over-all");
  }

  /* The 97.5 % quantile of Student's t distribution. */
  // Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5; within 0.1 % from 3 on.
  function quantile(df) {
    const z = 1.959964;
    return z + (z ** 3 + z) / (4 * df) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * df ** 2)
      + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * df ** 3)
      + (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / (92160 * df ** 4);
  }

  const three = (value) => Number(value.toPrecision(3));

  /* `1.8 × (1.1–2.8)`, or `46 × (30–70) slower`: ratios are above 1. */
  function ratioText(low, value, high) {
    const isSlower = value < 0.99 || high < 1;
    const [least, middle, most] = (isSlower ? [1 / high, 1 / value, 1 / low] : [low, value, high]).map(three);
    const interval = Number.isFinite(most) ? ` (${least}–${most})` : "";
    return `${middle} ×${interval}${isSlower ? ` ${data.slower}` : ""}`;
  }

  /* A speed-up over the chosen blocks alone. It has no verdict, because the choice may follow the data. */
  function recalculated(row) {
    const chosen = row.pairs.filter(([block]) => fitsBlock(block)).map(([, logRatio]) => logRatio);
    const n = chosen.length;
    if (!n) return [];
    const mean = chosen.reduce((sum, value) => sum + value, 0) / n;
    const variance = chosen.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1);
    const half = n < 4 ? Infinity : quantile(n - 1) * Math.sqrt(variance / n); // as in estimates.py
    const [low, value, high] = [-half, 0, half].map((shift) => Math.exp(mean + shift));
    const label = `${ratioText(low, value, high)}, ${n} of ${row.pairs.length} blocks`;
    const ends = half < Infinity ? { low, high, outer_low: low, outer_high: high } : {};
    const { name, arm, pairs } = row;
    return [{ name, arm, pairs, row: row.row, value, ...ends, label, text: `${row.row}: ${label}`, fill: "var(--paper)" }];
  }

  function chosenRows(rows, hidden) {
    const shown = rows.filter((row) => {
      const arm = arms.get(row.arm ?? row.name);
      return !hidden.has(row.name) && (!arm || fits(arm)) && (!("block" in row) || fitsBlock(row.block));
    });
    if (!root.dataset.configs) return shown;
    return shown.flatMap((row) => (row.pairs ? recalculated(row) : [row]));
  }

  /* The axis is that of all configs, so that choices can be compared; it grows where that is too short. */
  function widened(layer, rows) {
    const { x } = layer.encoding;
    if (!root.dataset.configs || !x?.scale?.domain) return layer;
    const ends = rows.flatMap((row) => (row.pairs ? [row.low ?? row.value, row.high ?? row.value] : []));
    const domain = [Math.min(x.scale.domain[0], ...ends), Math.max(x.scale.domain[1], ...ends)];
    return { ...layer, encoding: { ...layer.encoding, x: { ...x, scale: { ...x.scale, domain } } } };
  }

  function draw(key) {
    const div = document.querySelector(`div.plot[data-plot="${key}"]`);
    const boxes = [...document.querySelectorAll(`input[data-plot="${key}"]`)];
    const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    const { datasets, layer, ...rest } = plots[key];
    const shown = Object.entries(datasets).map(([name, rows]) => [name, chosenRows(rows, hidden)]);
    const rows = shown.flatMap(([, own]) => own);
    const specification = { ...rest, layer: layer.map((part) => widened(part, rows)), datasets: Object.fromEntries(shown) };
    div.classList.toggle("empty", !rows.length);
    // `ast` interprets expressions, so that the page's policy needs no eval.
    return vegaEmbed(div, specification, { mode: "vega-lite", renderer: "svg", ast: true, actions: false });
  }

  /* One chart at a time, so that the page stays responsive; a newer choice ends an older drawing. */
  let newest = 0;
  async function drawAll() {
    const own = ++newest;
    delete root.dataset.drawn;
    for (const key of Object.keys(plots)) {
      await draw(key);
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (own !== newest) return;
    }
    root.dataset.drawn = "yes";
  }

  document.addEventListener("change", (event) => {
    if (event.target.dataset.plot) draw(event.target.dataset.plot);
  });
  listeners.push(drawAll);
})();
