// What every page has: the theme, the browser's own zone, commands to copy, keys, questions before something is ended.

const base = document.body.dataset.base ?? "";
const keepChoice = (name, value) => {
  document.cookie = `${name}=${encodeURIComponent(value)}; path=${base || "/"}; max-age=31536000; samesite=strict`;
};

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  button.addEventListener("click", (event) => {
    event.preventDefault();
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    keepChoice("rota_theme", theme);
  });
}

for (const button of document.querySelectorAll("[data-own-zone]")) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const known = [...button.form.querySelectorAll("button[aria-pressed] .soft")].some((one) => one.textContent === own);
  if (own && own !== "UTC" && !known) {
    button.setAttribute("aria-pressed", String(button.value === own));
    button.value = own;
    button.querySelector(".soft").textContent = own;
    button.hidden = false;
  }
}

for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => menu.contains(event.target) || menu.removeAttribute("open"));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) {
      menu.removeAttribute("open");
      menu.querySelector("summary").focus();
    }
  });
}

// By hand: `scrollIntoView` would let the first Tab begin behind the link, and so pass the one that skips to the content.
const current = document.querySelector(".nav [aria-current]");
const bar = current?.closest(".bar");
if (bar) bar.scrollLeft = current.offsetLeft - (bar.clientWidth - current.offsetWidth) / 2;

export const tell = (text) => {
  document.getElementById("announce").textContent = text;
};

const showCopies = (part) => {
  if (!navigator.clipboard) return;
  for (const button of part.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
};
showCopies(document);
document.addEventListener("rota:swapped", (event) => showCopies(event.target));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  tell("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const find = document.getElementById("find");
  if (find && ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing))) {
    event.preventDefault();
    find.focus();
    find.select();
  }
});

// A form that ends something is answered by a page that asks once more: it is shown here as a dialog.
const ask = async (form, button) => {
  const data = new URLSearchParams(new FormData(form, button));
  const action = button?.hasAttribute("formaction") ? button.formAction : form.action;
  const answer = await fetch(action, {
    method: "POST",
    body: data,
    headers: { Accept: "text/html" },
    redirect: "follow",
  });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const asking = page.getElementById("asking");
  if (!asking) {
    const message = page.querySelector("main > .message"); // told once: the next page would not have it any more
    if (message && new URL(answer.url).pathname === location.pathname) {
      document.querySelector("main > .message")?.remove();
      document.getElementById("main").prepend(document.importNode(message, true));
    } else location.assign(answer.url);
    return;
  }
  const dialog = document.createElement("dialog");
  asking.classList.remove("card");
  asking.action = action;
  asking.querySelector("h1").id = "asking-title";
  dialog.setAttribute("aria-labelledby", "asking-title");
  dialog.append(document.importNode(asking, true));
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    button?.focus();
  });
  dialog.querySelector("[data-close]").addEventListener("click", (event) => {
    event.preventDefault();
    dialog.close();
  });
  dialog.showModal();
};

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-asks]")) return;
  event.preventDefault();
  ask(form, event.submitter).catch(() => HTMLFormElement.prototype.submit.call(form));
});
