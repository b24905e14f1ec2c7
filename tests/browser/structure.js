() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const byId = (id) => document.getElementById(id)?.textContent.trim();
    const text = (element, by) => (element.getAttribute(by) ?? "").split(" ").map(byId).join("");
    const named = (element) => element.getAttribute("aria-label")
        || text(element, "aria-labelledby")
        || [...(element.labels ?? [])].map((label) => label.textContent).join("").trim()
        || (/BUTTON|FIELDSET/.test(element.tagName) && element.textContent.trim());
    const shown = (element) => element.outerHTML.slice(0, 120);
    const ids = all("[id]").filter((e) => !e.closest("svg")).map((element) => element.id);
    const controls = "button, select, input, [role=region], [role=img], nav, section, fieldset";
    const landmarks = ["header", "nav", "main", "footer"];
    return {
        lang: document.documentElement.lang,
        landmarks: landmarks.map((name) => all(`body > ${name}, body > div > ${name}, .side > ${name}`).length),
        levels: all("h1, h2, h3, h4").map((heading) => Number(heading.tagName[1])),
        twice: ids.filter((id, i) => ids.indexOf(id) !== i),
        unnamed: all(controls).filter((e) => !named(e)).map(shown),
        plots: all("div.plot").filter((e) => !text(e, "aria-describedby")).map(shown),
        headless: all("table").filter((e) => !e.querySelector("thead th[scope=col]")).map(shown),
    };
}
