/* The table of trials: filtered, sorted, in pages of rows. All text is set as text, never as HTML. */
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("trial-data").textContent);
  const table = byId("trial-table");
  if (!table) return;
  const ROWS = 50;
  const all = data.arm.map((_, i) => i);
  const text = (field, i) => data.texts[data[field][i]];
  const arm = (i) => data.arms[data.arm[i]];
  const config = all.map((i) => Object.entries(data.params)
    .filter(([, values]) => values[i] !== null).map(([name, values]) => `${name} ${values[i]}`).join(", "));
  const searched = all.map((i) => [
    arm(i).name, text("outcome", i), config[i], data.run[i], text("node", i), text("failure", i),
  ].join("\n").toLowerCase());

  const columns = [
    { title: "arm", of: (i) => arm(i).name },
    { title: "config", of: (i) => config[i], name: "config" },
    { title: "outcome", of: (i) => text("outcome", i), name: "outcome" },
    ...data.shown.map((metric) => ({ title: metric, of: (i) => data.metrics[metric][i], number: true })),
    { title: "block", of: (i) => data.block[i], number: true },
    { title: "repeat", of: (i) => data.repeat[i], number: true },
    { title: "run", of: (i) => data.run[i], name: "run mono" },
  ];
  const filters = {
    "trial-arm": (i) => arm(i).name,
    "trial-hardware": (i) => arm(i).hardware,
    "trial-implementation": (i) => arm(i).implementation,
    "trial-variant": (i) => arm(i).variant,
    "trial-outcome": (i) => text("outcome", i),
  };
  let order = { column: null, down: false };
  let matching = all;
  let first = 0;

  function element(tag, content, attributes = {}) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value) made.setAttribute(name, value);
    made.append(...(Array.isArray(content) ? content : [content]));
    return made;
  }

  const shown = (value) => (value === null || value === undefined || value === "" ? "–" : String(value));

  const rounded = (value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value);

  function compare(one, other) {
    if (one === other) return 0;
    if (one === null || one === undefined) return 1; // missing values come last in both orders
    if (other === null || other === undefined) return -1;
    const less = typeof one === "number" && typeof other === "number"
      ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    return order.down ? -less : less;
  }

  function find() {
    const wanted = Object.entries(filters).map(([id, of]) => [byId(id), of])
      .filter(([select]) => select && select.value).map(([select, of]) => [select.value, of]);
    const words = byId("trial-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = all.filter((i) => wanted.every(([value, of]) => of(i) === value)
      && words.every((word) => searched[i].includes(word)));
    if (order.column !== null) {
      const { of } = columns[order.column];
      matching.sort((a, b) => compare(of(a), of(b)) || a - b);
    }
    first = 0;
    show();
  }

  function details(i) {
    const every = (group) => Object.entries(data[group]).map(([name, values]) => [name, values[i]])
      .filter(([, value]) => value !== null);
    const noted = Object.entries(data.notes).map(([name, values]) => [name, data.texts[values[i]]]);
    const wide = [["MLflow run", data.run[i]], ["kernel that ran", text("kernel", i)], ["failure", text("failure", i)], ...noted];
    const narrow = [["node", text("node", i)], ["attempt", data.attempt[i]]];
    const entry = (kind) => ([name, value]) => element("div", [element("dt", name), element("dd", shown(value))], { class: kind });
    const has = ([, value]) => value !== "";
    const list = element("dl", [
      ...wide.filter(has).map(entry("wide")),
      ...[...narrow, ...every("params"), ...every("metrics")].filter(has).map(entry("")),
    ]);
    return element("tr", element("td", list, { colspan: columns.length + 1 }), { class: "more" });
  }

  function row(i) {
    const cells = columns.map(({ of, number, name }, at) => element(
      at ? "td" : "th", shown(rounded(of(i))), { class: [number ? "number" : "", name || ""].join(" ").trim(), scope: at ? "" : "row" }));
    const button = element("button", "Details", { type: "button", "aria-expanded": "false", "aria-label": `Details of ${arm(i).name}, block ${data.block[i]}, repeat ${data.repeat[i]}` });
    const line = element("tr", [...cells.slice(0, -1), element("td", button, { class: "open" }), ...cells.slice(-1)]);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) line.nextSibling.remove();
      else line.after(details(i));
    });
    return line;
  }

  function show() {
    const last = Math.min(first + ROWS, matching.length);
    table.tBodies[0].replaceChildren(...matching.slice(first, last).map(row));
    const of = matching.length === all.length ? `${all.length} trials` : `${matching.length} matching trials of ${all.length}`;
    byId("trial-count").textContent = matching.length ? `Showing ${first + 1}–${last} of ${of}` : `None of ${all.length} trials matches`;
    byId("page-at").textContent = `Page ${first / ROWS + 1} of ${Math.max(1, Math.ceil(matching.length / ROWS))}`;
    byId("page-back").disabled = first === 0;
    byId("page-on").disabled = last >= matching.length;
  }

  function head() {
    const cells = columns.map(({ title, number }, at) => {
      const button = element("button", title, { type: "button" });
      const cell = element("th", button, { scope: "col", class: number ? "number" : "" });
      button.addEventListener("click", () => {
        order = { column: at, down: order.column === at && !order.down };
        for (const header of table.tHead.querySelectorAll("th")) header.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
        find();
      });
      return cell;
    });
    const more = element("th", "details", { scope: "col", class: "open" });
    table.tHead.append(element("tr", [...cells.slice(0, -1), more, ...cells.slice(-1)]));
  }

  const form = byId("trial-filters");
  form.addEventListener("input", find);
  form.addEventListener("reset", () => setTimeout(find, 0));
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("page-back").addEventListener("click", () => { first -= ROWS; show(); });
  byId("page-on").addEventListener("click", () => { first += ROWS; show(); });
  head();
  show();
})();
