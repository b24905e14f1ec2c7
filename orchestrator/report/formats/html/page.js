/* What all parts of the page share: the trials, the filters and who listens to them; theme and print. */
"use strict";
const report = (() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("trial-data").textContent);
  const coded = new Set(data.coded);
  const all = data.arm_of.map((_, i) => i);
  const cell = (name, i) => (coded.has(name) ? data.texts[data.columns[name][i]] : data.columns[name][i]);
  const isMissing = (value) => value === null || value === undefined || value === "";
  const listeners = [];

  function rounded(value) {
    const isFraction = typeof value === "number" && !Number.isInteger(value);
    return isFraction ? value.toLocaleString("en", { maximumSignificantDigits: 3 }) : value;
  }

  /* Text is set as text, never as HTML: it comes from specs and runs. */
  function element(tag, content, attributes = {}) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
    made.append(...(Array.isArray(content) ? content : [content]));
    return made;
  }

  const form = byId("filters");
  const ofArms = []; // predicates of an arm
  const ofConfigs = []; // predicates of a trial; all trials of a block have one config
  let blocks = null; // the blocks whose configs are chosen; null: all of them

  function select(id, label, values) {
    const options = values.map((value) => element("option", String(value)));
    const made = element("select", [element("option", "all", { value: "" }), ...options], { id });
    form.querySelector(".fields").append(element("div", [element("label", label, { for: id }), made], { class: "field" }));
    return made;
  }

  function range(id, name, values) {
    const ends = [["from", Math.min(...values)], ["to", Math.max(...values)]].map(([end, placeholder]) => element(
      "input", [], { id: `${id}-${end}`, type: "number", step: "any", placeholder, "aria-label": `${name} ${end}` }));
    const line = element("div", [ends[0], element("span", "–"), ends[1]], { class: "range" });
    form.querySelector(".fields").append(element("fieldset", [element("legend", name), line], { class: "field" }));
    return ends;
  }

  function addFilters() {
    for (const kind of ["hardware", "implementation", "variant"]) {
      const values = [...new Set(data.arms.map((arm) => arm[kind]))].filter(Boolean);
      if (values.length < 2) continue;
      const box = select(`filter-${kind}`, kind[0].toUpperCase() + kind.slice(1), values);
      ofArms.push((arm) => !box.value || arm[kind] === box.value);
    }
    for (const [at, name] of data.params.entries()) {
      const id = `filter-param-${at}`;
      const first = new Map(all.map((i) => [cell("block", i), cell(name, i)]));
      const values = [...new Set(first.values())].filter((value) => !isMissing(value));
      const isOfBlocks = all.every((i) => cell(name, i) === first.get(cell("block", i)));
      if (values.length < 2 || !isOfBlocks) continue; // a setting of variants differs within a block
      if (values.every((value) => typeof value === "number")) {
        const [low, high] = range(id, name, values);
        ofConfigs.push((i) => {
          const value = cell(name, i);
          const [least, most] = [low.valueAsNumber, high.valueAsNumber];
          if (Number.isNaN(least) && Number.isNaN(most)) return true;
          return !isMissing(value) && !(value < least) && !(value > most);
        });
      } else {
        const box = select(id, name, values.sort());
        ofConfigs.push((i) => !box.value || String(cell(name, i)) === box.value);
      }
    }
  }

  const fits = (arm) => ofArms.every((predicate) => predicate(arm));
  const fitsBlock = (block) => !blocks || blocks.has(block);
  const fitsTrial = (i) => fits(data.arms[data.arm_of[i]]) && fitsBlock(cell("block", i));

  const named = new Map(); // the arms that a cell or a header names
  for (const arm of data.arms) {
    const texts = [arm.name, arm.short, arm.hardware, arm.hardware.split(" (")[0], arm.implementation, arm.variant];
    for (const text of new Set(texts.filter(Boolean))) {
      named.set(text, [...(named.get(text) ?? []), arm]);
    }
  }
  const configs = all.map((i) => data.params.filter((name) => !isMissing(cell(name, i)))
    .map((name) => `${name} ${rounded(cell(name, i))}`).join(", "));
  const hides = (box) => {
    const arms = named.get(box.textContent);
    return Boolean(arms) && !arms.some(fits);
  };
  const ofConfig = new Map(all.map((i) => [configs[i], cell("block", i)])); // blocks of one config fit alike
  const tables = [...document.querySelectorAll("main table:not(#trial-table)")].map((table) => {
    const heads = [...table.tHead.rows[0].cells];
    const block = heads.findIndex((head) => head.textContent === "config no.");
    const rows = [...table.tBodies[0].rows];
    const blockOf = rows.map(({ cells }) => (block >= 0
      ? Number(cells[block].textContent.replaceAll(",", "")) : ofConfig.get(cells[0].textContent)));
    if (rows.length && blockOf.every((number) => number === undefined)) table.classList.add("over-all");
    return { heads, rows, blockOf };
  });

  /* Rows and columns of arms, hardware, implementations or blocks that are not chosen are hidden. */
  function filterTables() {
    for (const { heads, rows, blockOf } of tables) {
      const columns = heads.map(hides);
      heads.forEach((head, at) => { head.hidden = columns[at]; });
      rows.forEach((row, place) => {
        const cells = [...row.cells];
        cells.forEach((box, at) => { box.hidden = columns[at]; });
        row.hidden = cells.some(hides) || (blockOf[place] !== undefined && !fitsBlock(blockOf[place]));
      });
    }
  }

  function applyFilters() {
    const chosen = all.filter((i) => ofConfigs.every((predicate) => predicate(i)));
    blocks = chosen.length === all.length ? null : new Set(chosen.map((i) => cell("block", i)));
    if (blocks) root.dataset.configs = "some";
    else delete root.dataset.configs;
    filterTables();
    const n = all.filter(fitsTrial).length;
    const unit = data.of > all.length ? "trials on this page" : "trials";
    byId("filter-count").textContent = n === all.length ? `All ${n} ${unit}` : `${n} of ${all.length} ${unit}`;
    for (const listener of listeners) listener();
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

  const theme = byId("theme");
  theme.value = storedTheme();
  applyTheme(theme.value);
  theme.addEventListener("change", () => applyTheme(storedTheme(theme.value)));

  /* On a small screen, contents and filters are closed panels of a bar. */
  const narrow = matchMedia("(max-width: 64rem)");
  const panels = [...document.querySelectorAll(".side details")];
  const fold = () => { for (const panel of panels) panel.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  for (const panel of panels) {
    panel.addEventListener("toggle", () => {
      if (narrow.matches && panel.open) for (const other of panels) other.open = other === panel;
    });
  }
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape" && narrow.matches) fold(); });
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  for (const link of links.values()) link.addEventListener("click", () => { if (narrow.matches) fold(); });
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const [id, link] of links) {
        if (id === target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const id of links.keys()) seen.observe(byId(id));

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  let waiting = 0;
  const applySoon = () => { // a number is typed digit by digit
    clearTimeout(waiting);
    waiting = setTimeout(applyFilters, 150);
  };
  addFilters();
  form.hidden = !all.length;
  form.addEventListener("input", applySoon);
  form.addEventListener("reset", applySoon); // the fields change after the event
  form.addEventListener("submit", (event) => event.preventDefault());

  return { root, byId, form, data, all, cell, isMissing, rounded, configs, element, fits, fitsBlock, fitsTrial, applyFilters, listeners };
})();
