/* A page that `rnnsweep report --serve` serves: what runs now, and the page again when it has changed. */
"use strict";
(() => {
  const { byId, element, form } = report;
  const strip = byId("live");
  const LOOK_MS = 2000; // and of a tab in the background:
  const HIDDEN_MS = 15000;
  const KEPT = `rnnsweep-kept-${location.pathname}`;
  const fields = () => [...document.querySelectorAll("#filters [id], #trial-filters [id]")]
    .filter((field) => field.matches("input, select"));
  const details = () => [...document.querySelectorAll("main details")];

  function renew() { // the same filters, open details and place
    const values = Object.fromEntries(fields().map((field) => [field.id, field.value]));
    const open = details().map((part) => part.open);
    sessionStorage.setItem(KEPT, JSON.stringify({ values, open, top: scrollY }));
    location.reload();
  }

  function restore() {
    const text = sessionStorage.getItem(KEPT);
    if (!text) return;
    sessionStorage.removeItem(KEPT);
    const { values, open, top } = JSON.parse(text);
    for (const field of fields()) {
      if (!values[field.id]) continue;
      field.value = values[field.id];
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
    form.dispatchEvent(new Event("input"));
    const parts = details();
    if (parts.length === open.length) parts.forEach((part, at) => { part.open = open[at]; });
    requestAnimationFrame(() => scrollTo(0, top));
  }

  const isInUse = () => fields().includes(document.activeElement) || !getSelection().isCollapsed;

  function show(state) {
    byId("live-state").textContent = state.text;
    const bar = byId("live-done");
    bar.hidden = state.trials === null;
    if (state.trials !== null) [bar.max, bar.value] = [Math.max(state.trials, 1), state.trials_done];
    byId("live-running").replaceChildren(...state.running.map((text) => element("li", text)));
    const isNew = String(state.version) !== strip.dataset.version;
    if (isNew && !isInUse()) renew();
    byId("live-new").hidden = !isNew;
  }

  async function look() {
    try {
      const answer = await fetch("live.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.json());
    } catch {
      byId("live-state").textContent = "No answer: the command that serves this page has ended. What it shows stays.";
      byId("live-running").replaceChildren();
    }
    setTimeout(look, document.hidden ? HIDDEN_MS : LOOK_MS);
  }

  byId("live-new").addEventListener("click", renew);
  restore();
  look();
})();
