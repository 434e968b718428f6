// Where the work stands, or what went wrong: one sentence.
function statusView(root) {
  const bar = make("span", { class: "pg-progress", "aria-hidden": "true" });
  const text = make("span");
  root.append(make("p", { class: "pg-status", role: "status" }, bar, text));
  return value => {
    text.textContent = value.text ?? "";
    root.classList.toggle("pg-error", Boolean(value.error));
    bar.hidden = value.share === null || value.share === undefined;
    bar.style.setProperty("--share", value.share ?? 0);
  };
}
