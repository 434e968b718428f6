function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = model.get("_style");
  const [maps, removal] = [0, 1].map(() => make("div", { class: "pg" }));
  el.append(style, maps, removal);
  mapsView(maps)(model.get("maps"));
  removalView(removal)(model.get("removal"));
}
export default { render };
