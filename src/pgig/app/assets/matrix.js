// How far methods agree with one another.
function matrixView(root) {
  return value => {
    if (!value.names && !value.error) { root.replaceChildren(); return; }
    if (value.error) { root.replaceChildren(make("p", { class: "pg-soft" }, value.error)); return; }
    const cell = (share, row, column) => make("td", { style: `--share:${Math.max(0, share)}`, class: row === column ? "pg-self" : "" }, share.toFixed(2));
    root.replaceChildren(make("div", { class: "pg-wide" }, make("table", { class: "pg-matrix" },
      make("thead", {}, make("tr", {}, make("th"), value.names.map(name => make("th", { scope: "col" }, name)))),
      make("tbody", {}, value.names.map((name, row) => make("tr", {}, make("th", { scope: "row" }, name), value.matrix[row].map((share, column) => cell(share, row, column))))))),
      make("p", { class: "pg-soft" }, "Rank correlation of patches, by magnitude: 1 means the same order, 0 none in common. Methods can agree and be wrong."),
      saving("save the matrix", () => download("agreement.csv", "text/csv", csv([["", ...value.names], ...value.names.map((name, row) => [name, ...value.matrix[row]])]))));
  };
}
