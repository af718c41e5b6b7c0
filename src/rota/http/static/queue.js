// Moving runs of the queue by keys: Alt with an arrow, Home or End moves the run whose row has the focus.

import { tell } from "./page.js";

const MOVES = { ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" };
let moving = false;

const showKeys = () => {
  for (const hint of document.querySelectorAll("[data-keys]")) hint.hidden = false;
};

const swap = (page, name) => {
  const before = document.querySelector(`[data-fragment="${name}"]`);
  const after = page.querySelector(`[data-fragment="${name}"]`);
  if (before && after) before.replaceWith(document.importNode(after, true));
};

const move = async (row, to) => {
  const focus = document.activeElement.id || "";
  const form = row.querySelector("form.moves");
  const body = new URLSearchParams(new FormData(form));
  body.set("to", to);
  const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const name of ["head", "ready", "waiting"]) swap(page, name);
  showKeys();
  const again = document.getElementById(row.id);
  (document.getElementById(focus) ?? again?.querySelector("a"))?.focus();
  const message = page.querySelector("main > .message");
  if (message) tell(message.textContent.trim());
};

const start = (event, row, to) => {
  event.preventDefault();
  if (moving) return;
  moving = true;
  move(row, to)
    .catch(() => tell("it could not be moved"))
    .finally(() => {
      moving = false;
    });
};

document.addEventListener("keydown", (event) => {
  const row = event.target.closest?.("tr[data-run]");
  const to = MOVES[event.key];
  if (!row?.querySelector("form.moves") || !to || !event.altKey || event.ctrlKey || event.metaKey) return;
  start(event, row, to);
});

// The buttons do the same without leaving the page.
document.addEventListener("click", (event) => {
  const button = event.target.closest("form.moves button");
  const row = button?.closest("tr[data-run]");
  if (!row) return;
  button.focus();
  start(event, row, button.value);
});

showKeys();
document.addEventListener("rota:swapped", showKeys);
