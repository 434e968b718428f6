// A picture to drop, paste or choose, or an example. It is read here and sent as it is; the server decodes it.
function pickerView(root, send) {
  const LARGEST = 30 * 2 ** 20;
  const said = make("p", { class: "pg-said", role: "status" });
  const file = make("input", { type: "file", accept: "image/*", class: "pg-hidden", tabindex: "-1", "aria-hidden": "true", onchange: () => { give(file.files[0]); file.value = ""; } });
  const zone = make("button", { type: "button", class: "pg-drop", onclick: () => file.click() },
    make("b", {}, "Choose a picture"), make("span", {}, "or drop it here, or paste it"));
  const shelf = make("div", { class: "pg-shelf", role: "group", "aria-label": "Examples" });
  root.append(zone, file, said, shelf);
  function give(picked) {
    if (!picked) return;
    said.textContent = "";
    if (picked.size > LARGEST) { said.textContent = `${picked.name} has ${(picked.size / 2 ** 20).toFixed(0)} MB: files up to 30 MB are taken.`; return; }
    const reader = new FileReader();
    reader.onload = () => send("picked", { name: picked.name || "pasted picture", data: reader.result.slice(reader.result.indexOf(",") + 1) });
    reader.onerror = () => { said.textContent = `${picked.name} could not be read.`; };
    reader.readAsDataURL(picked);
  }
  const over = on => event => { event.preventDefault(); zone.classList.toggle("pg-over", on); };
  root.addEventListener("dragover", over(true));
  root.addEventListener("dragleave", over(false));
  root.addEventListener("drop", event => { over(false)(event); give(event.dataTransfer.files[0]); });
  document.addEventListener("paste", event => {
    const picture = [...(event.clipboardData?.files ?? [])].find(one => one.type.startsWith("image/"));
    if (picture && root.offsetParent !== null) { event.preventDefault(); give(picture); }
  });
  return value => {
    said.textContent = value.error ?? "";
    root.classList.toggle("pg-error", Boolean(value.error));
    if (value.examples) shelf.replaceChildren(...(value.examples ?? []).map((one, number) =>
      make("button", { type: "button", class: "pg-example", title: one.name, "aria-label": `example ${one.name}`, onclick: () => send("picked", { example: number }) },
        make("img", { src: one.picture, alt: `Example: ${one.name}` }))));
  };
}
