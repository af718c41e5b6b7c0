// What needs attention, as a number in the title and a dot on the icon; and, where this browser wishes it, a notification
// of each run that failed.

const base = document.body.dataset.base ?? "";
const KEY = "rota_notify";
const PAUSE = 5000; // what needs attention is asked for no more often
const title = document.title;
const icon = document.querySelector('link[rel="icon"]');
const plainIcon = icon?.href;

const wished = () => {
  try {
    return localStorage.getItem(KEY) === "on";
  } catch {
    return false; // storage is switched off
  }
};

// Whether events are followed while the page is not seen.
export const follows = () => wished() && "Notification" in window && Notification.permission === "granted";

const count = async () => {
  const answer = await fetch(`${base}/api/v1/attention`, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok) return;
  const { items } = await answer.json();
  const open = items.filter((item) => item.acknowledged === null).length;
  document.title = open ? `(${open}) ${title}` : title;
  if (icon) icon.href = open ? icon.dataset.attention : plainIcon;
};

let asked = -Infinity;
let later = null;
const ask = () => {
  const rest = asked + PAUSE - performance.now();
  if (rest > 0) {
    later ??= setTimeout(ask, rest);
    return;
  }
  clearTimeout(later);
  later = null;
  asked = performance.now();
  count().catch(() => {}); // the next event asks again
};

const show = (event) => {
  const run = JSON.parse(event.detail);
  if (!follows() || run.status !== "FAILED") return;
  const made = new Notification(`${run.run} failed`, { body: run.error ?? run.reason ?? "", tag: run.run, icon: plainIcon });
  made.addEventListener("click", () => {
    focus();
    location.assign(`${base}/ui/runs/${encodeURIComponent(run.run.replaceAll("/", "~"))}`);
  });
};

const offer = (button, follow) => {
  const tell = () => button.setAttribute("aria-pressed", String(follows()));
  button.hidden = false;
  tell();
  button.addEventListener("click", async () => {
    const on = !follows();
    if (on && (await Notification.requestPermission()) !== "granted") {
      button.querySelector(".soft").textContent = "refused by this browser";
      return;
    }
    localStorage.setItem(KEY, on ? "on" : "off");
    tell();
    follow();
  });
};

export const watch = (follow) => {
  if (!icon?.dataset.attention) return;
  for (const name of ["run.finished", "job.changed", "question.asked", "question.answered", "reset"]) {
    document.addEventListener(`rota:${name}`, ask);
  }
  document.addEventListener("rota:run.finished", show);
  const button = document.querySelector("[data-notify]");
  if (button && "Notification" in window) offer(button, follow);
  ask();
};
