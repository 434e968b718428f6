"use strict";
const cards = [...document.querySelectorAll(".card")];
function view(card, name) {
  card.dataset.view = name;
  card.querySelector(`.tools input[value=${name}]`).checked = true;
}
function fade(card, share) {
  card.querySelector(".stack").style.setProperty("--opacity", share / 100);
  card.querySelector("input[type=range]").value = share;
}
for (const card of cards) {
  card.addEventListener("input", event => event.target.type === "range" ? fade(card, event.target.value) : view(card, event.target.value));
}
for (const choice of document.querySelectorAll("input[name=all]")) {
  choice.addEventListener("click", () => cards.forEach(card => view(card, choice.value)));
}
document.getElementById("opacity").addEventListener("input", event => cards.forEach(card => fade(card, event.target.value)));
