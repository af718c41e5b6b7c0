// Finds jobs at each key: the list is fetched, and the address kept, so that a reload finds the same.

const form = document.querySelector("form[role=search].toolbar");
const PAUSE = 200;
let timer = null;
let asked = 0;

const address = () => {
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value || (name === "sort" && value === "name")) query.delete(name, value);
  const found = new URL(form.action);
  found.search = query;
  return found;
};

const look = async () => {
  const mine = ++asked;
  const wanted = address();
  history.replaceState(null, "", wanted);
  const part = new URL(wanted);
  part.searchParams.set("fragment", "list");
  const answer = await fetch(part, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (!answer.ok || mine !== asked) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-fragment=list]");
  const made = document.importNode(fresh, true);
  document.querySelector("[data-fragment=list]").replaceWith(made);
  for (const back of document.querySelectorAll("#act [name=back], #ask [name=back], #chosen [name=back]")) {
    back.value = wanted.pathname.slice((document.body.dataset.base ?? "").length) + wanted.search;
  }
  made.dispatchEvent(new CustomEvent("rota:swapped", { bubbles: true }));
};

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => look().catch(() => form.submit()), PAUSE);
});

// The chosen jobs: how many they are, all of the page at once, and buttons that need one.
const picks = () => [...document.querySelectorAll("input[name=job][form=chosen]")];
const showChosen = () => {
  const boxes = picks();
  const count = boxes.filter((box) => box.checked).length;
  const all = document.getElementById("pick-all");
  const words = document.querySelector("[data-chosen]");
  if (all) {
    all.hidden = false;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
  if (words) words.textContent = count ? `${count} chosen` : "None chosen";
  for (const button of document.querySelectorAll("button[form=chosen]")) button.disabled = count === 0;
};

document.addEventListener("change", (event) => {
  if (event.target.id === "pick-all") for (const box of picks()) box.checked = event.target.checked;
  if (event.target.id === "pick-all" || event.target.name === "job") showChosen();
});
document.addEventListener("rota:swapped", showChosen);
addEventListener("pageshow", showChosen);
showChosen();
