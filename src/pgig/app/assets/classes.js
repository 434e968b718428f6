// The likeliest classes: explain that one, or hold a second for the difference.
function classesView(root, send) {
  return value => {
    const asked = value.asked ?? [];
    const ask = (...classes) => send("asked", { classes });
    const at = [...root.querySelectorAll("button")].indexOf(document.activeElement);
    root.replaceChildren(make("ul", { class: "pg-classes" }, value.classes.map(one => {
      const first = asked[0] === one.index, second = asked[1] === one.index;
      return make("li", {},
        make("button", { type: "button", class: "pg-class", "aria-pressed": String(first), onclick: () => ask(one.index) },
          make("span", { class: "pg-bar", style: `--share:${one.share}` }),
          make("span", { class: "pg-name" }, one.name), make("span", { class: "pg-share" }, percent(one.share))),
        make("button", {
          type: "button", class: "pg-rather", "aria-pressed": String(second), disabled: first,
          title: "Why the class asked for, rather than this one?", "aria-label": `rather than ${one.name}`,
          onclick: () => second ? ask(asked[0]) : ask(asked[0], one.index),
        }, second ? "rather than ✓" : "rather than"));
    })));
    if (at >= 0) root.querySelectorAll("button")[at]?.focus();
  };
}
