// Maps side by side over one picture: one opacity, one zoom and one crosshair for all. Nothing here asks the server.
function mapsView(root) {
  const state = { view: "over", opacity: 75, top: 10, zoom: 1 };
  const cards = new Map();
  const group = `pg-view-${Math.random().toString(36).slice(2)}`;
  const title = make("h3", { class: "pg-title" });
  const thumb = make("img", { class: "pg-thumb", alt: "The picture, as the network sees it", hidden: true });
  const told = make("p", { class: "pg-soft" });
  const shelf = make("div", { class: "pg-cards" });
  const opacity = slider("Opacity", { min: 0, max: 100, value: state.opacity }, value => `${value} %`, value => { state.opacity = value; show(); });
  const top = slider("The most important", { min: 1, max: 50, value: state.top }, value => `${value} %`, value => { state.top = value; show(); });
  const views = [["over", "over the picture"], ["map", "map alone"], ["top", "only the most important"]].map(([name, label]) =>
    make("label", {}, make("input", { type: "radio", name: group, value: name, checked: name === state.view, onchange: () => { state.view = name; show(); } }), ` ${label}`));
  const zoomed = make("output", {}, "1 ×");
  const zoom = (by, at) => {
    state.zoom = by === 0 ? 1 : between(1, state.zoom * by, 8);
    if (at) centre(at);
    zoomed.textContent = `${state.zoom.toFixed(state.zoom % 1 ? 1 : 0)} ×`;
    root.style.setProperty("--zoom", state.zoom);
  };
  const bar = make("div", { class: "pg-tools", role: "group", "aria-label": "All maps" }, views, opacity.whole, top.whole,
    make("span", { class: "pg-zoom" },
      make("button", { type: "button", "aria-label": "zoom out", onclick: () => zoom(1 / 1.5) }, "−"), zoomed,
      make("button", { type: "button", "aria-label": "zoom in", onclick: () => zoom(1.5) }, "+")),
    saving("save this view", () => snapshot(root, title.textContent || "maps")));
  const scale = make("p", { class: "pg-soft" }, "Each map is on a scale of its own: compare where, not how strong.");
  bar.hidden = scale.hidden = true;
  const left = make("div");
  root.append(make("div", { class: "pg-head" }, thumb, make("div", {}, title, told)), bar, shelf, left, scale);
  zoom(0);
  point({ x: 0.5, y: 0.5 }, false);

  function centre(at) { root.style.setProperty("--x", at.x); root.style.setProperty("--y", at.y); }
  function point(at, seen = true) {
    state.at = at;
    root.style.setProperty("--cx", at.x);
    root.style.setProperty("--cy", at.y);
    root.classList.toggle("pg-pointing", seen);
    if (seen) for (const card of cards.values()) card.read(at);
  }
  function show() {
    root.dataset.view = state.view;
    root.style.setProperty("--opacity", state.opacity / 100);
    top.whole.hidden = state.view !== "top";
    opacity.whole.hidden = state.view !== "over";
    if (state.view === "top") for (const card of cards.values()) card.cut(state.top / 100);
  }
  function card(one, value) {
    const photo = one.photo ?? value.photo;
    const outline = one.outline ?? value.outline;
    const canvas = make("canvas", { class: "pg-top", "aria-hidden": "true" });
    const pane = make("div", { class: "pg-pane" },
      make("img", { class: "pg-photo", src: photo, alt: "" }),
      make("img", { class: "pg-map", src: one.map, alt: `What mattered by ${one.name}: ${one.sentence}` }), canvas,
      outline ? make("img", { class: "pg-outline", src: outline, alt: "" }) : null,
      make("i", { class: "pg-cross pg-across" }), make("i", { class: "pg-cross pg-down" }));
    const stack = make("div", {
      class: "pg-stack", tabindex: "0", role: "group", "aria-label": `${one.name}: arrows move the crosshair, plus and minus zoom`,
      onpointermove: event => point(place(event)), onpointerleave: () => point(state.at, false),
      ondblclick: event => zoom(state.zoom > 1 ? 0 : 3, place(event)),
      onclick: event => { if (state.zoom > 1) centre(place(event)); },
      onwheel: event => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, place(event)); } },
      onkeydown: event => {
        const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
        if (step) { event.preventDefault(); const at = { x: between(0, state.at.x + step[0] / 50, 1), y: between(0, state.at.y + step[1] / 50, 1) }; point(at); if (state.zoom > 1) centre(at); }
        else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.5 : 1 / 1.5, state.at);
      },
    }, pane);
    function place(event) {
      const box = pane.getBoundingClientRect();
      return { x: between(0, (event.clientX - box.left) / box.width, 1), y: between(0, (event.clientY - box.top) / box.height, 1) };
    }
    const here = make("output", { class: "pg-here" });
    const whole = make("figure", { class: "pg-card", "data-method": one.name }, make("h4", {}, one.name), stack,
      make("figcaption", {},
        make("p", {}, make("span", { class: `pg-key ${one.signed ? "pg-two" : "pg-one"}` }), ` ${one.sentence}`),
        one.ranks ? null : make("p", {}, make("b", {}, "Zero everywhere:"), " it has nothing to say here."),
        one.note ? make("p", {}, make("b", {}, one.note)) : null,
        make("p", { class: "pg-soft" }, `${one.about}. ${one.seconds.toFixed(1)} s. `, here)));
    let ranks = null, pixels = null;
    const ready = one.ranks ? Promise.all([loaded(one.ranks), loaded(photo)]).then(([of, picture]) => {
      [canvas.width, canvas.height] = [of.width, of.height];
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(of, 0, 0);
      ranks = context.getImageData(0, 0, of.width, of.height).data.slice();
      context.drawImage(picture, 0, 0, of.width, of.height);
      pixels = context.getImageData(0, 0, of.width, of.height);
    }) : Promise.resolve();
    return {
      whole,
      cut: share => ready.then(() => {
        if (!pixels) return;
        const least = 255 * (1 - share);
        for (let n = 0; n < pixels.data.length; n += 4) pixels.data[n + 3] = ranks[n] >= least ? 255 : 0;
        canvas.getContext("2d").putImageData(pixels, 0, 0);
      }),
      read: at => {
        if (!ranks) return;
        const column = Math.min(canvas.width - 1, Math.floor(at.x * canvas.width)), row = Math.min(canvas.height - 1, Math.floor(at.y * canvas.height));
        here.textContent = `At the crosshair: above ${Math.round(ranks[4 * (row * canvas.width + column)] / 2.55)} % of the picture.`;
      },
    };
  }
  return value => {
    title.textContent = value.title ?? "";
    told.textContent = value.told ?? "";
    const wanted = new Map();
    for (const one of value.maps ?? []) {
      const key = [one.name, one.photo ?? value.photo, one.map, one.note].join("|");
      wanted.set(key, cards.get(key) ?? card(one, value));
    }
    cards.clear();
    for (const [key, one] of wanted) cards.set(key, one);
    const held = document.activeElement;
    const ready = new Map((value.maps ?? []).map((one, n) => [one.name, [...wanted.values()][n].whole]));
    const inWork = name => make("figure", { class: "pg-card pg-waiting" }, make("h4", {}, name),
      make("div", { class: "pg-stack" }, make("img", { class: "pg-photo", src: value.photo, alt: "" })), make("figcaption", {}, make("p", { class: "pg-soft" }, "in work")));
    const waiting = value.waiting ?? [];
    const order = value.order ?? [...ready.keys(), ...waiting];
    shelf.replaceChildren(...order.flatMap(name => ready.has(name) ? [ready.get(name)] : waiting.includes(name) ? [inWork(name)] : []));
    if (held && held !== document.activeElement && root.contains(held)) held.focus();
    shelf.classList.toggle("pg-pairwise", Boolean(value.pairs));
    thumb.hidden = !value.photo || Boolean(value.pairs);
    if (value.photo) thumb.src = value.photo;
    left.replaceChildren(...Object.entries(value.left_out ?? {}).map(([name, why]) => make("p", { class: "pg-soft" }, `Left out: ${name} (${why})`)));
    bar.hidden = scale.hidden = wanted.size === 0;
    show();
  };
}
