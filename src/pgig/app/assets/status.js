// Where the work stands, or what went wrong: one sentence.
function statusView(root, send) {
  const bar = make("span", { class: "pg-progress", "aria-hidden": "true" });
  const text = make("span");
  let nudges = [];
  root.append(make("p", { class: "pg-status", role: "status" }, bar, text));
  return value => {
    text.textContent = value.text ?? "";
    root.classList.toggle("pg-error", Boolean(value.error));
    bar.hidden = value.share === null || value.share === undefined;
    bar.style.setProperty("--share", value.share ?? 0);
    // Gradio can close its stream just as something new is asked, whose answers then lie there until one asks again
    nudges.forEach(clearTimeout);
    nudges = value.waits ? [3000, 12000, 40000].map(after => setTimeout(() => send("nudged", {}), after)) : [];
  };
}
