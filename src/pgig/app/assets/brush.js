// A brush that blurs or greys; when a stroke ends, the network is asked again.
function brushView(root, send) {
  let value = null, cells = [], images = {}, fill = "blur", size = 3, at = [0, 0], painting = false, used = false;
  const group = `pg-fill-${Math.random().toString(36).slice(2)}`;
  const canvas = make("canvas", { class: "pg-brush", tabindex: "0", "aria-label": "The picture, to paint over: arrows move the brush, space paints" });
  const bars = make("div", { class: "pg-bars", role: "status" });
  const kinds = ["blur", "grey"].map(name => make("label", {}, make("input", { type: "radio", name: group, value: name, checked: name === fill, onchange: () => { fill = name; draw(); tell(); } }), ` ${name}`));
  const width = slider("Brush", { min: 1, max: 10, value: size }, number => `${4 * (2 * number - 1)} px`, number => { size = number; });
  root.append(make("div", { class: "pg-tools" }, kinds, width.whole, make("button", { type: "button", onclick: () => { cells.fill("0"); draw(); tell(); } }, "clear"), saving("save this view", () => snapshot(root, "painted"))),
    make("div", { class: "pg-painting" }, canvas, bars));
  function dab([column, row]) {
    for (let y = row - size + 1; y < row + size; y++) for (let x = column - size + 1; x < column + size; x++) {
      const inside = (x - column) ** 2 + (y - row) ** 2 < size ** 2;
      if (inside && x >= 0 && y >= 0 && x < value.columns && y < value.rows) cells[y * value.columns + x] = "1";
    }
  }
  function draw() {
    if (!images.photo) return;
    const context = canvas.getContext("2d"), side = value.cell;
    context.drawImage(images.photo, 0, 0);
    cells.forEach((cell, number) => {
      if (cell !== "1") return;
      const x = number % value.columns * side, y = Math.floor(number / value.columns) * side;
      context.drawImage(images[fill], x, y, side, side, x, y, side, side);
    });
    if (used) { context.strokeStyle = "#d55e00"; context.lineWidth = 2; context.strokeRect((at[0] - size + 1) * side, (at[1] - size + 1) * side, (2 * size - 1) * side, (2 * size - 1) * side); }
  }
  const tell = () => send("painted", { cells: cells.join(""), fill });
  function cell(event) {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientX - box.left) / box.width * value.columns), Math.floor((event.clientY - box.top) / box.height * value.rows)];
  }
  canvas.addEventListener("pointerdown", event => { if (!value) return; painting = true; canvas.setPointerCapture(event.pointerId); at = cell(event); dab(at); draw(); });
  canvas.addEventListener("pointermove", event => { if (!value) return; at = cell(event); used = true; if (painting) dab(at); draw(); });
  canvas.addEventListener("pointerup", () => { if (painting) { painting = false; tell(); } });
  canvas.addEventListener("pointerleave", () => { used = false; draw(); });
  canvas.addEventListener("keydown", event => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!value || (!step && event.key !== " ")) return;
    event.preventDefault();
    used = true;
    if (step) at = [between(0, at[0] + step[0], value.columns - 1), between(0, at[1] + step[1], value.rows - 1)];
    else { dab(at); tell(); }
    draw();
  });
  return given => {
    if (given.photo) {
      value = given;
      cells = Array(value.columns * value.rows).fill("0");
      at = [Math.floor(value.columns / 2), Math.floor(value.rows / 2)];
      Promise.all([loaded(value.photo), loaded(value.fills.blur), loaded(value.fills.grey)]).then(([photo, blur, grey]) => {
        images = { photo, blur, grey };
        [canvas.width, canvas.height] = [photo.width, photo.height];
        draw();
      });
    }
    bars.replaceChildren(...given.shares.map(one => make("div", { class: "pg-bar-row" },
      make("span", {}, one.name), make("span", { class: "pg-bar2", style: `--before:${one.before};--now:${one.now}` }),
      make("span", {}, `${percent(one.before)} → ${percent(one.now)}`))),
      make("p", { class: "pg-soft" }, `${percent(given.painted ?? 0)} of the picture painted over. Outlined: before; filled: now.`));
  };
}
