() => {
    const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parts = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const paint = parts(getComputedStyle(at).backgroundColor);
            if (paint[3] === 255) return paint;
        }
        return parts(getComputedStyle(document.documentElement).backgroundColor);
    };
    const weak = [];
    for (const element of document.querySelectorAll("body *:not(script):not(noscript)")) {
        const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        const svg = element.closest("svg");
        if (!own || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const ink = parts(svg ? style.fill : style.color);
        const [one, two] = [luminance(ink), luminance(behind(element))].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (two + 0.05);
        if (ratio < 4.5) weak.push([element.tagName, element.textContent.slice(0, 40), ratio]);
    }
    return weak;
}
