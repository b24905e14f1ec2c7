/* The table of trials: filtered, sorted, in pages of rows; and its CSV. */
"use strict";
(() => {
  const { byId, data, all, cell, isMissing, rounded, configs, element, fitsTrial, applyFilters, listeners } = report;
  const table = byId("trial-table");
  const ROWS = 50;
  let order = { column: null, down: false };
  let matching = all;
  let first = 0;

  const arm = (i) => data.arms[data.arm_of[i]];
  const outcome = (i) => cell("outcome", i).replaceAll("_", " ");
  const searched = all.map((i) => [arm(i).name, outcome(i), configs[i], ...["run_id", "node", "failure"]
    .map((name) => cell(name, i))].join("\n").toLowerCase());
  const columns = [
    { title: "arm", of: (i) => arm(i).name },
    { title: "config", of: (i) => configs[i], name: "config" },
    { title: "outcome", of: outcome, name: "outcome" },
    ...[...data.shown, "block", "repeat"].map((name) => ({ title: name, of: (i) => cell(name, i), number: true })),
    { title: "run", of: (i) => cell("run_id", i).slice(0, 8), name: "run mono" },
  ];

  const shown = (value) => (isMissing(value) ? "–" : String(rounded(value)));

  function compare(one, other) {
    if (one === other) return 0;
    if (isMissing(one)) return 1; // missing values come last in both orders
    if (isMissing(other)) return -1;
    const less = typeof one === "number" && typeof other === "number"
      ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    return order.down ? -less : less;
  }

  function find() {
    const wanted = byId("trial-outcome").value;
    const words = byId("trial-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = all.filter((i) => fitsTrial(i) && (!wanted || outcome(i) === wanted)
      && words.every((word) => searched[i].includes(word)));
    if (order.column !== null) {
      const { of } = columns[order.column];
      matching.sort((a, b) => compare(of(a), of(b)) || a - b);
    }
    first = 0;
    show();
  }

  function details(i) {
    const known = Object.keys(data.columns).map((name) => [name, cell(name, i)]).filter(([, value]) => !isMissing(value));
    const list = element("dl", known.map(([name, value]) => element(
      "div", [element("dt", name), element("dd", String(value))], { class: String(value).length > 32 ? "wide" : "" })));
    return element("tr", element("td", list, { colspan: columns.length + 1 }), { class: "more" });
  }

  function row(i) {
    const cells = columns.map(({ of, number, name }, at) => element(
      at ? "td" : "th", shown(of(i)), { class: [number ? "number" : "", name || ""].join(" ").trim(), scope: at ? null : "row" }));
    const button = element("button", "Details", { type: "button", "aria-expanded": "false", "aria-label": `Details of ${arm(i).name}, block ${cell("block", i)}, repeat ${cell("repeat", i)}` });
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
    for (const button of document.querySelectorAll(".download")) {
      button.textContent = `Download CSV (${matching.length} trial${matching.length === 1 ? "" : "s"})`;
    }
  }

  function head() {
    const cells = columns.map(({ title, number }, at) => {
      const button = element("button", title, { type: "button" });
      const made = element("th", button, { scope: "col", class: number ? "number" : "" });
      button.addEventListener("click", () => {
        order = { column: at, down: order.column === at && !order.down };
        for (const header of table.tHead.querySelectorAll("th")) header.removeAttribute("aria-sort");
        made.setAttribute("aria-sort", order.down ? "descending" : "ascending");
        find();
      });
      return made;
    });
    const more = element("th", "details", { scope: "col", class: "open" });
    table.tHead.append(element("tr", [...cells.slice(0, -1), more, ...cells.slice(-1)]));
  }

  /* The rules of csv_rows.py: no text is a formula, and RFC 4180 quotes. */
  function quoted(value) {
    if (isMissing(value)) return "";
    let text = String(value);
    if (typeof value === "string" && /^ *[=+\-@]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function download() {
    const names = Object.keys(data.columns);
    const lines = [names, ...matching.map((i) => names.map((name) => cell(name, i)))];
    const text = lines.map((line) => `${line.map(quoted).join(",")}\n`).join("");
    const link = element("a", [], { download: `${data.sweep}.csv`, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it after the click
  }

  if (table) {
    const outcomes = [...new Set(all.map(outcome))].map((text) => element("option", text));
    byId("trial-outcome").append(...outcomes);
    byId("trial-filters").addEventListener("input", find);
    byId("trial-filters").addEventListener("submit", (event) => event.preventDefault());
    byId("page-back").addEventListener("click", () => { first -= ROWS; show(); });
    byId("page-on").addEventListener("click", () => { first += ROWS; show(); });
    for (const button of document.querySelectorAll(".download")) button.addEventListener("click", download);
    head();
    listeners.push(find);
  }
  applyFilters();
})();
