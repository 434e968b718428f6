// What all views share. Names and sentences only ever become text, never HTML.
function make(tag, attributes = {}, ...children) {
  const made = tag === "svg" || make.svg.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}
make.svg = new Set(["path", "line", "g", "text", "rect"]);
const percent = share => share >= 0.0995 ? `${Math.round(100 * share)} %` : `${(100 * share).toFixed(1)} %`;
const between = (low, value, high) => Math.min(high, Math.max(low, value));
// Okabe and Ito's colours, which colour-blind people can tell apart; each has a dash of its own beside
const LINES = [["var(--mark)", ""], ["#d55e00", "9 4"], ["var(--soft)", "2 3"]];
const RIVALS = [["#cc79a7", "6 2"], ["#009e73", "4 2 1 2"], ["#e69f00", "8 2 2 2"], ["#56b4e9", "1 2"]];
function loaded(address) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => failed(new Error("a picture could not be shown"));
    image.src = address;
  });
}
function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
// What a view shows, as a page of its own.
function snapshot(root, name) {
  const copy = root.cloneNode(true);
  const drawn = root.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, n) => {
    const image = make("img", { src: drawn[n].width ? drawn[n].toDataURL() : "", class: canvas.getAttribute("class") ?? "" });
    canvas.replaceWith(image);
  });
  copy.querySelectorAll("button, input").forEach(control => control.remove());
  const rules = [...document.styleSheets].flatMap(sheet => { try { return [...sheet.cssRules]; } catch { return []; } });
  const style = rules.map(rule => rule.cssText).filter(text => text.includes("pg")).join("\n");
  const escaped = name.replace(/[<>&]/g, "");
  download(`${name}.html`, "text/html", `<!doctype html><meta charset="utf-8"><title>${escaped}</title><style>${style}</style>${copy.outerHTML}`);
}
const csv = rows => rows.map(row => row.map(cell => /[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell).join(",")).join("\n") + "\n";
const saving = (label, action) => make("button", { type: "button", class: "pg-save", onclick: action }, label);
function slider(label, attributes, tell, change) {
  const told = make("output", {}, tell(+attributes.value));
  const range = make("input", { type: "range", "aria-label": label, ...attributes, oninput: () => { told.textContent = tell(+range.value); change(+range.value); } });
  return { range, told, whole: make("label", { class: "pg-slide" }, `${label} `, range, " ", told) };
}
