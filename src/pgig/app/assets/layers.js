// Patterns, layer by layer: how well they catch the signal, and what is wrong with them; and the first layer as pictures.
function layersView(root) {
  return value => {
    const share = (rho, kind, label) => rho === null ? null : make("i", { class: `pg-dot pg-${kind}`, style: `--at:${between(0, rho, 1)}`, title: `${label} ${rho.toFixed(2)}` });
    const row = one => make("tr", {}, make("th", { scope: "row" }, one.name),
      make("td", { class: "pg-track", role: "img", "aria-label": one.weight === null ? "quality not measured" : `w ${one.weight.toFixed(2)}, p ${one.pattern.toFixed(2)}` },
        share(one.weight, "w", "weight"), share(one.pattern, "p", "pattern")),
      make("td", {}, one.weight === null ? "" : `${one.weight.toFixed(2)} → ${one.pattern.toFixed(2)}`),
      make("td", { class: "pg-fault", style: `--share:${one.unhealthy}` }, percent(one.unhealthy)),
      make("td", {}, one.regime));
    const pair = (one, number) => make("figure", { class: "pg-pair" }, make("img", { src: one.weight, alt: `Weight of unit ${number}` }), make("img", { src: one.pattern, alt: `Pattern of unit ${number}` }));
    root.replaceChildren(...[
      make("p", {}, make("b", {}, "Verdict: "), value.verdict),
      value.layers.length ? saving("save this view", () => snapshot(root, "patterns")) : null,
      value.units.length ? make("h3", {}, `The first layer, ${value.first}`) : null,
      value.units.length ? make("p", { class: "pg-soft" }, "Of each pair, above what the unit multiplies with (its weight w), below what it reacts to in the data (its pattern p). Each on its own scale; grey is zero.") : null,
      value.units.length ? make("div", { class: "pg-pairs" }, value.units.map(pair)) : null,
      value.layers.length ? make("h3", {}, "Layer by layer") : null,
      value.layers.length ? make("p", { class: "pg-soft" }, make("i", { class: "pg-dot pg-w pg-still" }), " signal quality of the weight w, ", make("i", { class: "pg-dot pg-p pg-still" }), " of the pattern p, from 0 to 1 (1: nothing of the signal is left in the rest). Unhealthy: units that are dead, weak, negative or seen too few times.") : null,
      value.layers.length ? make("div", { class: "pg-wide" }, make("table", { class: "pg-layers" },
        make("thead", {}, make("tr", {}, ["layer", "quality", "w → p", "unhealthy", "regime"].map(name => make("th", { scope: "col" }, name)))),
        make("tbody", {}, value.layers.map(row)))) : null,
    ].filter(Boolean));
  };
}
