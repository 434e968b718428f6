"use strict";
const SVG = "http://www.w3.org/2000/svg";
const make = (kind, attributes, text) => {
  const node = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};
const shown = v => v === 0 || Math.abs(v) >= 0.01 ? v.toFixed(3) : v.toPrecision(2);

function explore(panel, data) {
  const W = 760, H = 380, L = 56, R = 14, T = 12, B = 44;
  const measure = panel.querySelector("select.measure"), choices = panel.querySelector(".choices");
  const svg = panel.querySelector("svg"), told = panel.querySelector("output");
  const ink = name => data.colours[name] === "#000000" ? "currentColor" : data.colours[name]; // black is the page's own ink
  data.measures.forEach((m, n) => measure.add(new Option(`${m.label} (${m.better} ${m.column} is better)`, n)));
  data.methods.forEach(name => {
    const label = document.createElement("label"), box = document.createElement("input"), swatch = document.createElement("span");
    box.type = "checkbox"; box.checked = true; box.value = name;
    swatch.className = "swatch"; swatch.style.borderColor = ink(name);
    swatch.style.borderTopStyle = ["solid", "dashed", "dotted"][data.dashes[name]];
    label.append(box, swatch, name); choices.append(label);
  });
  const line = (points, name, extra) => make("path", {
    d: points.map(([x, y], n) => (n ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join(""), fill: "none",
    stroke: ink(name), "stroke-width": name === "pgig" ? 3 : 1.8,
    "stroke-dasharray": ["none", "6 3", "2 2"][data.dashes[name]], ...extra });
  let hover = null;
  const draw = () => {
    const m = data.measures[measure.value];
    const chosen = [...choices.querySelectorAll("input:checked")].map(box => box.value);
    svg.replaceChildren(); hover = null; told.textContent = "";
    if (!chosen.length) { told.textContent = "Choose at least one method."; return; }
    const curves = Object.keys(m.curves).length > 0;
    if (curves) {
      const last = (m.curves[chosen[0]][0].length - 1) * m.each;
      const values = chosen.flatMap(name => [...m.curves[name][1], ...m.curves[name][2]]);
      const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
      const X = step => L + (W - L - R) * step / last, Y = v => T + (H - T - B) * (high - v) / span;
      for (let n = 0; n <= 4; n++) {
        const v = low + span * n / 4, step = Math.round(last * n / 4);
        svg.append(make("line", {x1: L, x2: W - R, y1: Y(v), y2: Y(v), stroke: "currentColor", opacity: .12}));
        svg.append(make("text", {x: L - 6, y: Y(v) + 4, "text-anchor": "end"}, shown(v)));
        svg.append(make("text", {x: X(step), y: H - B + 18, "text-anchor": "middle"}, step));
      }
      svg.append(make("text", {x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle"}, `${m.steps}; ${m.axis}`));
      for (const name of chosen) {
        const [mean, lows, highs] = m.curves[name];
        const area = [...highs.map((v, n) => [X(n * m.each), Y(v)]), ...lows.map((v, n) => [X(n * m.each), Y(v)]).reverse()];
        svg.append(line(area, name, {fill: data.colours[name], opacity: .08, stroke: "none"}));
        svg.append(line(mean.map((v, n) => [X(n * m.each), Y(v)]), name, {}));
      }
      const rule = make("line", {y1: T, y2: H - B, stroke: "currentColor", opacity: 0});
      svg.append(rule);
      hover = x => {
        const n = Math.max(0, Math.min(last / m.each, Math.round((x - L) / (W - L - R) * last / m.each)));
        rule.setAttribute("x1", X(n * m.each)); rule.setAttribute("x2", X(n * m.each)); rule.setAttribute("opacity", .5);
        const sorted = chosen.map(name => [name, m.curves[name][0][n]]).sort((a, b) => a[1] - b[1]);
        told.textContent = `${n * m.each} ${m.steps}: ` + sorted.map(([name, v]) => `${name} ${shown(v)}`).join(", ");
      };
      told.textContent = "Point at the curves for values.";
    } else {
      const rows = Object.entries(m.rows).filter(([name]) => chosen.includes(name));
      const low = Math.min(...rows.map(r => r[1][1])), high = Math.max(...rows.map(r => r[1][2])), span = high - low || 1;
      const left = 210, X = v => left + (W - left - R - 10) * (v - low) / span, gap = (H - T - B) / rows.length;
      for (let n = 0; n <= 4; n++) {
        const v = low + span * n / 4;
        svg.append(make("line", {x1: X(v), x2: X(v), y1: T, y2: H - B, stroke: "currentColor", opacity: .12}));
        svg.append(make("text", {x: X(v), y: H - B + 18, "text-anchor": "middle"}, shown(v)));
      }
      rows.forEach(([name, [mean, from, to]], n) => {
        const y = T + gap * (n + .5);
        svg.append(make("text", {x: left - 10, y: y + 4, "text-anchor": "end"}, name));
        svg.append(line([[X(from), y], [X(to), y]], name, {}));
        const dot = make("circle", {cx: X(mean), cy: y, r: 5, fill: ink(name)});
        dot.append(make("title", {}, `${name} ${shown(mean)} [${shown(from)}, ${shown(to)}]`));
        svg.append(dot);
      });
      svg.append(make("text", {x: (left + W) / 2, y: H - 6, "text-anchor": "middle"}, `${m.column}: ${m.better} is better`));
      told.textContent = rows.map(([name, v]) => `${name} ${shown(v[0])}`).join(", ");
    }
  };
  const point = event => {
    if (!hover) return;
    const box = svg.getBoundingClientRect();
    hover((event.clientX - box.left) / box.width * W);
  };
  svg.addEventListener("pointermove", point); svg.addEventListener("pointerdown", point);
  measure.addEventListener("change", draw); choices.addEventListener("change", draw);
  const every = panel.querySelector("button.every");
  every.addEventListener("click", () => {
    const boxes = [...choices.querySelectorAll("input")], all = boxes.every(box => box.checked);
    boxes.forEach(box => { box.checked = !all; }); draw();
  });
  panel.hidden = false; draw();
}

function step(panel, examples) {
  const pick = panel.querySelector("select.example"), slider = panel.querySelector("input[type=range]");
  const gone = panel.querySelector(".gone"), sides = [...panel.querySelectorAll(".side")];
  examples.forEach((e, n) => pick.add(new Option(e.name, n)));
  const load = address => new Promise(done => { const i = new Image(); i.onload = () => done(i); i.src = address; });
  let pictures = null;
  const draw = () => {
    if (!pictures) return;
    const e = examples[pick.value], steps = +slider.value, each = e.orders[0][0] ? e.orders[0][0].length : 1;
    gone.textContent = `${steps * each} patches gone`;
    for (const side of sides) {
      const n = e.methods.indexOf(side.querySelector("select").value), canvas = side.querySelector("canvas");
      [canvas.width, canvas.height] = e.size;
      const c = canvas.getContext("2d");
      c.drawImage(pictures[0], 0, 0);
      for (const patches of e.orders[n].slice(0, steps)) for (const p of patches) {
        const x = p % e.columns * e.patch, y = Math.floor(p / e.columns) * e.patch;
        c.drawImage(pictures[1], x, y, e.patch, e.patch, x, y, e.patch, e.patch);
      }
      const curve = e.curves[n], svg = side.querySelector("svg");
      const low = Math.min(0, ...e.curves.flat()), high = Math.max(...e.curves.flat()), span = high - low || 1;
      const place = k => [4 + 292 * k / (curve.length - 1), 4 + 72 * (high - curve[k]) / span];
      svg.replaceChildren(
        make("path", {d: curve.map((_, k) => (k ? "L" : "M") + place(k).map(v => v.toFixed(1)).join(" ")).join(""), fill: "none", stroke: "currentColor", "stroke-width": 1.5}),
        make("circle", {cx: place(steps)[0], cy: place(steps)[1], r: 5, fill: "#d55e00"}));
      side.querySelector(".score").textContent = `score ${curve[steps].toFixed(3)}, from ${curve[0].toFixed(3)}`;
    }
  };
  const change = async () => {
    const e = examples[pick.value];
    slider.max = e.curves[0].length - 1;
    sides.forEach((side, n) => {
      const select = side.querySelector("select"), before = select.value;
      select.replaceChildren(...e.methods.map(name => new Option(name, name)));
      select.value = e.methods.includes(before) ? before : e.methods[n ? e.methods.length - 1 : 0];
    });
    pictures = await Promise.all([load(e.image), load(e.filled)]);
    draw();
  };
  pick.addEventListener("change", change); slider.addEventListener("input", draw);
  sides.forEach(side => side.querySelector("select").addEventListener("change", draw));
  panel.hidden = false; change();
}

for (const source of document.querySelectorAll("script.data")) {
  const data = JSON.parse(source.textContent), section = source.closest("section");
  explore(section.querySelector(".explore"), data);
  const panel = section.querySelector(".step");
  if (panel && data.examples.length) step(panel, data.examples);
}
