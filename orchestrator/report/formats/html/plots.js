/* Draws the figures in the colours of the theme, and redraws them when theme, width or choice change. */
"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const figures = JSON.parse(byId("figures").textContent);
  const divs = new Map([...document.querySelectorAll("div.plot")].map((div) => [div.dataset.plot, div]));
  const theme = byId("theme");
  const chosen = { hardware: byId("plot-hardware"), implementation: byId("plot-implementation") };
  const NARROW = 560;
  const PAPER_PX = 660; // the width of A4 between its margins
  let printing = false;

  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  function colours() {
    const of = (name, value) => {
      probe.className = name;
      probe.style.color = value;
      return getComputedStyle(probe).color;
    };
    return {
      of: (style) => of(`style-${style % figures.styles}`, ""),
      ink: of("", "var(--ink)"),
      quiet: of("", "var(--quiet)"),
      rule: of("", "var(--rule)"),
      paper: of("", "var(--paper)"),
    };
  }

  const seeThrough = (rgb, alpha) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

  function shown(figure, meta) {
    const box = document.querySelector(`input[data-plot="${figure.key}"][data-group="${meta.group}"]`);
    const arm = figure.by_arm ? figures.arms[figure.groups[meta.group]] : undefined;
    const fits = (key) => !arm || !chosen[key] || ["", arm[key]].includes(chosen[key].value);
    return (!box || box.checked) && fits("hardware") && fits("implementation");
  }

  function paint(figure, trace, palette) {
    const { meta } = trace;
    const colour = palette.of(meta.style);
    const copy = { ...trace, visible: shown(figure, meta) };
    if (meta.mark === "band") {
      return { ...copy, fillcolor: seeThrough(colour, 0.16) };
    }
    const pattern = trace.marker && trace.marker.pattern;
    copy.marker = { ...trace.marker, color: colour, line: { color: pattern ? palette.paper : colour, width: pattern ? 1 : 1.5 } };
    if (pattern) copy.marker.pattern = { ...pattern, fgcolor: palette.paper, fillmode: "overlay" };
    if (meta.faint) copy.opacity = 0.45;
    if (trace.line) copy.line = { ...trace.line, color: colour };
    for (const error of ["error_x", "error_y"]) {
      if (trace[error]) copy[error] = { ...trace[error], color: colour };
    }
    return copy;
  }

  /* The names of rows are above them, so that long names need no margin. */
  function rowNames(figure, narrow, palette) {
    return figure.rows.map((row, place) => ({
      xref: "paper", x: 0, xanchor: "left", yref: "y", y: place - 0.17, yanchor: "bottom",
      showarrow: false, align: "left", bgcolor: seeThrough(palette.paper, 0.75), borderpad: 0, font: { color: palette.ink, size: narrow ? 12 : 13 },
      text: [narrow ? `<b>${row.brief}</b>` : `<b>${row.name}</b>`, row.label].filter(Boolean).join(narrow ? "<br>" : "   "),
    }));
  }

  function draw(figure) {
    const div = divs.get(figure.key);
    const width = printing ? PAPER_PX : Math.max(div.clientWidth, 240);
    const narrow = width < NARROW;
    const palette = colours();
    const rows = figure.rows.length;
    const axis = (base) => ({
      ...base, gridcolor: palette.rule, linecolor: palette.quiet, color: palette.quiet,
      automargin: true, fixedrange: narrow, title: { ...base.title, font: { color: palette.quiet, size: 13 } },
    });
    const layout = {
      ...figure.layout,
      width, height: rows ? rows * (narrow ? 74 : 58) + 70 : narrow ? 340 : 420,
      margin: { l: rows ? 12 : 52, r: 18, t: 14, b: 46 },
      xaxis: axis(figure.layout.xaxis),
      yaxis: axis(figure.layout.yaxis),
      annotations: rowNames(figure, narrow, palette),
      shapes: figure.layout.shapes.map((shape) => shape.type === "line"
        ? { ...shape, line: { color: palette.quiet, width: 1.5, dash: "dot" } }
        : { ...shape, fillcolor: seeThrough(palette.quiet, 0.18), line: { width: 0 } }),
      paper_bgcolor: palette.paper, plot_bgcolor: palette.paper,
      font: { family: getComputedStyle(document.body).fontFamily, color: palette.ink, size: 13 },
      hoverlabel: { align: "left", bgcolor: palette.paper, bordercolor: palette.quiet, font: { color: palette.ink } },
    };
    const data = figure.data.map((trace) => paint(figure, trace, palette));
    return Plotly.react(div, data, layout, { displayModeBar: false, scrollZoom: false, responsive: false });
  }

  const drawAll = () => figures.plots.forEach(draw);

  /* One figure at a time, so that the page stays responsive. */
  function drawOneByOne(remaining) {
    if (!remaining.length) {
      root.dataset.drawn = "yes";
      return;
    }
    draw(remaining[0]);
    setTimeout(drawOneByOne, 0, remaining.slice(1));
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
  theme.addEventListener("change", () => {
    applyTheme(storedTheme(theme.value));
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const select of Object.values(chosen)) if (select) select.addEventListener("change", drawAll);
  document.addEventListener("change", (event) => {
    const key = event.target.dataset.plot;
    if (key) draw(figures.plots.find((figure) => figure.key === key));
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    drawAll();
  });

  let opened = [];
  addEventListener("beforeprint", () => {
    printing = true;
    applyTheme("light");
    opened = [...document.querySelectorAll("figure details:not([open])")];
    for (const details of opened) details.open = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    applyTheme(theme.value);
    for (const details of opened) details.open = false;
    drawAll();
  });

  drawOneByOne(figures.plots);
})();
