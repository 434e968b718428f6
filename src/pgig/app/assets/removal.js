// Patches taken away with a slider, and what becomes of the class and its rivals. All curves are here: nothing is asked.
function removalView(root) {
  const W = 660, H = 250, EDGE = { left: 62, right: 14, top: 12, bottom: 34 };
  let value = null, at = 0, drawn = [];
  const told = make("p", { role: "status", class: "pg-told" });
  const gone = slider("Patches taken away", { min: 0, max: 1, value: 0, class: "pg-long" }, String, number => { at = number; show(); });
  const rivals = make("input", { type: "checkbox", checked: true, onchange: () => draw() });
  const pictures = make("div", { class: "pg-cards pg-few" });
  const chart = make("svg", { viewBox: `0 0 ${W} ${H}`, class: "pg-chart", role: "img" });
  const legend = make("ul", { class: "pg-legend" });
  const soft = make("p", { class: "pg-soft" });
  root.append(make("div", { class: "pg-tools" }, gone.whole, make("label", {}, rivals, " rivals"),
    saving("save the curves", () => download("curves.csv", "text/csv", csv([["order", "step", ...value.classes, "likeliest"], ...value.orders.flatMap(order => order.shares.map((of, step) => [order.name, step, ...of, order.top[step]]))]))),
    saving("save this view", () => snapshot(root, "taken-away"))), told,
    make("div", { class: "pg-removal" }, make("div", {}, chart, legend), pictures), soft);
  const across = step => EDGE.left + (W - EDGE.left - EDGE.right) * step / Math.max(1, value.steps);
  const down = share => H - EDGE.bottom - (H - EDGE.top - EDGE.bottom) * share;
  const style = ([colour, dash], width) => ({ style: `stroke:${colour}`, "stroke-dasharray": dash, "stroke-width": width, fill: "none" });
  const line = (shares, which, look) => make("path", { d: shares.map((of, step) => `${step ? "L" : "M"}${across(step).toFixed(1)} ${down(of[which]).toFixed(1)}`).join(""), ...look });
  const look = (number, count) => number === count - 1 ? LINES[2] : LINES[number];
  function draw() {
    const marks = [0, 0.25, 0.5, 0.75, 1].map(share => make("g", {},
      make("line", { x1: EDGE.left, x2: W - EDGE.right, y1: down(share), y2: down(share), class: "pg-grid" }),
      make("text", { x: EDGE.left - 6, y: down(share) + 4, "text-anchor": "end" }, `${100 * share} %`)));
    const steps = [0, 0.5, 1].map(part => { const step = Math.round(part * value.steps); return make("text", { x: across(step), y: H - 16, "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, String(step)); });
    const own = value.orders.map((order, number) => line(order.shares, 0, style(look(number, value.orders.length), 2.6)));
    const others = rivals.checked ? value.classes.slice(1).map((_, number) => line(value.orders[0].shares, number + 1, style(RIVALS[number], 1.3))) : [];
    const marker = make("line", { class: "pg-marker", y1: EDGE.top, y2: H - EDGE.bottom, x1: across(at), x2: across(at) });
    chart.replaceChildren(...marks, ...steps, make("text", { x: (W + EDGE.left) / 2, y: H - 2, "text-anchor": "middle" }, "patches taken away"), ...others, ...own, marker);
    const entry = (name, [colour, dash], thick) => make("li", {}, make("svg", { viewBox: "0 0 34 10", width: 34, height: 10, "aria-hidden": "true" }, make("path", { d: "M0 5H34", ...style([colour, dash], thick) })), ` ${name}`);
    legend.replaceChildren(...value.orders.map((order, number) => entry(`${value.classes[0]}, by ${order.name}`, look(number, value.orders.length), 2.6)),
      ...(rivals.checked ? value.classes.slice(1).map((name, number) => entry(`${name}, by ${value.orders[0].name}`, RIVALS[number], 1.3)) : []));
    chart.setAttribute("aria-label", `Share of ${value.classes[0]} while patches are taken away: ${value.orders.map(order => `${order.name} from ${percent(order.shares[0][0])} to ${percent(order.shares.at(-1)[0])}`).join("; ")}`);
  }
  function show() {
    if (!value) return;
    for (const marker of chart.querySelectorAll(".pg-marker")) { marker.setAttribute("x1", across(at)); marker.setAttribute("x2", across(at)); }
    for (const one of drawn) one.show();
    told.textContent = value.orders.map(order => {
      const step = Math.min(at, order.shares.length - 1);
      return `${order.name}: ${value.classes[0]} ${percent(order.shares[step][0])}, likeliest ${order.top[step]}`;
    }).join(" · ");
  }
  function picture(order) {
    const canvas = make("canvas", { width: value.side.width, height: value.side.height, role: "img", "aria-label": `The picture without what ${order.name} ranks highest` });
    const caption = make("figcaption");
    const whole = make("figure", { class: "pg-card" }, make("h4", {}, order.name), make("div", { class: "pg-stack" }, canvas), caption);
    let images = null;
    const one = { whole, show: () => {
      if (!images) return;
      const context = canvas.getContext("2d"), side = value.side.patch;
      context.drawImage(images[0], 0, 0);
      for (const patch of order.patches.slice(0, at)) {
        const left = patch % value.side.columns * side, top = Math.floor(patch / value.side.columns) * side;
        context.drawImage(images[1], left, top, side, side, left, top, side, side);
      }
      const step = Math.min(at, order.shares.length - 1);
      caption.replaceChildren(...value.classes.map((name, number) => make("p", { class: number ? "pg-soft" : "" }, `${name}: ${percent(order.shares[step][number])}`)),
        make("p", {}, make("b", {}, `Now likeliest: ${order.top[step]}`)));
    } };
    Promise.all([loaded(value.photo), loaded(value.filled)]).then(found => { images = found; one.show(); });
    return one;
  }
  root.hidden = true;
  return given => {
    root.hidden = !given.orders;
    if (!given.orders) { value = null; return; }
    const same = value && value.photo === given.photo && value.filled === given.filled && JSON.stringify(value.orders.map(o => [o.name, o.patches])) === JSON.stringify(given.orders.map(o => [o.name, o.patches]));
    if (same) given.orders.forEach((order, number) => Object.assign(value.orders[number], { shares: order.shares, top: order.top }));
    else {
      value = given;
      at = 0;
      drawn = value.orders.map(picture);
      pictures.replaceChildren(...drawn.map(one => one.whole));
      gone.range.value = 0;
      gone.told.textContent = "0";
    }
    const there = value.orders[0].shares.length - 1;
    gone.range.max = there;
    soft.textContent = `${there} of ${value.steps} steps computed; a step of all ${value.orders.length} orders took ${given.milliseconds} ms. The slider asks nothing anew.`;
    draw();
    show();
  };
}
