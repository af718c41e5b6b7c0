// Finding jobs while somebody types: the list is fetched, and the address kept, so that a reload finds the same.

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
  for (const back of document.querySelectorAll("#act [name=back], #ask [name=back]")) {
    back.value = wanted.pathname.slice((document.body.dataset.base ?? "").length) + wanted.search;
  }
  made.dispatchEvent(new CustomEvent("rota:swapped", { bubbles: true }));
};

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => look().catch(() => form.submit()), PAUSE);
});
