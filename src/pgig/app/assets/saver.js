// Whatever is shown, as a file: made by the server, saved from memory.
function saverView(root, send) {
  let last = null;
  const said = make("p", { class: "pg-said", role: "status" });
  const button = (what, label) => make("button", { type: "button", onclick: () => { said.textContent = "getting it ready …"; send("wanted", { what }); } }, label);
  root.append(make("div", { class: "pg-tools" }, button("page", "Save the page"), button("arrays", "Save the arrays")), said);
  return value => {
    if (value.error) { said.textContent = value.error; return; }
    if (!value.data || value.number === last) return;
    last = value.number;
    const bytes = Uint8Array.from(atob(value.data), letter => letter.charCodeAt(0));
    download(value.name, value.type, bytes);
    said.textContent = `Saved as ${value.name}.`;
  };
}
