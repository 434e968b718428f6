"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  table.classList.add("live");
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, n) => {
    const text = row.cells[n].dataset.value ?? row.cells[n].textContent.trim();
    const number = parseFloat(text);
    return Number.isNaN(number) ? text : number;
  };
  heads.forEach((head, n) => {
    head.tabIndex = 0;
    const sort = event => {
      if (event.target.closest("a")) return;
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [value(a, n), value(b, n)];
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(event); });
  });
}
const openTarget = () => {
  const found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found && found.tagName === "DETAILS") found.open = true;
};
addEventListener("hashchange", openTarget);
for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => setTimeout(openTarget));
openTarget();
