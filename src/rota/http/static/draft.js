// The form of a job: at each change the server returns its meaning and its problems.

import { tell } from "./page.js";

const form = document.getElementById("draft");
const PAUSE = 250;
let timer = null;
let asked = 0;
const touched = new Set();

const only = () => {
  const kind = form.querySelector("[name=kind]:checked")?.value;
  for (const part of form.querySelectorAll("[data-only]")) part.hidden = part.dataset.only !== kind;
};

// An untouched field shows no problems.
const showProblems = (meaning) => {
  for (const field of form.querySelectorAll("[data-field]")) {
    const name = field.dataset.field;
    const found = [...meaning.querySelectorAll("[data-problems] > [data-for]")].filter((one) => one.dataset.for === name);
    const shown = touched.has(name) || name === "" ? found : [];
    field.querySelector(".problem").replaceChildren(...shown.map((one) => one.cloneNode(true)));
    field.classList.toggle("wrong", shown.length > 0);
    field.querySelector("input, textarea")?.setAttribute("aria-invalid", String(shown.length > 0));
  }
};

const check = async () => {
  const mine = ++asked;
  const body = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.dataset.check, { method: "POST", body, headers: { Accept: "text/html" } });
  if (!answer.ok || mine !== asked) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("meaning");
  const made = document.importNode(fresh, true);
  const before = document.getElementById("meaning");
  before.replaceWith(made);
  const reading = made.querySelector(".reading")?.textContent ?? "";
  if (reading && reading !== before.querySelector(".reading")?.textContent) tell(reading);
  showProblems(made);
  made.dispatchEvent(new CustomEvent("rota:swapped", { bubbles: true }));
};

const soon = () => {
  clearTimeout(timer);
  timer = setTimeout(() => check().catch(() => {}), PAUSE);
};

form.addEventListener("input", (event) => {
  touched.add(event.target.name);
  only();
  soon();
});
form.addEventListener("focusout", (event) => {
  if (event.target.name && event.target.value) touched.add(event.target.name);
});
form.querySelector("[data-check-button]").addEventListener("click", (event) => {
  event.preventDefault();
  for (const field of form.querySelectorAll("[data-field]")) touched.add(field.dataset.field);
  check().catch(() => {});
});
for (const example of form.querySelectorAll("[data-examples] .chip")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = example.className;
  button.textContent = example.textContent;
  button.addEventListener("click", () => {
    form.schedule.value = button.textContent;
    touched.add("schedule");
    soon();
  });
  example.replaceWith(button);
}
for (const field of form.querySelectorAll(".wrong")) touched.add(field.dataset.field);
only();
