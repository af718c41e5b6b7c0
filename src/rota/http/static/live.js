// Keeps a page fresh: follows the events of the server, and fetches only those parts of the page that they touch.
// A part is an element with `data-fragment="name"`; `data-on="run job"` says which events touch it (all, if it is not
// there), `data-every="1000"` that it is also fetched by time, `data-least="2000"` that it is fetched no more often than
// that (twice a second, if it is not there), `data-announce` what is read out when that text changes.

import { tell } from "./page.js";
import { follows, watch } from "./notice.js";
import { goOn } from "./times.js";

const base = document.body.dataset.base ?? "";
const EVENTS = ["run.created", "run.waiting", "run.started", "run.finished", "job.changed", "question.asked", "question.answered", "question.expired", "question.withdrawn", "reset"];
const TOGETHER = 20;
const LEAST = 450; // a part is fetched about twice a second at most, however much happens
const AGAIN = 5000;
let lost = false;
let seq = document.body.dataset.seq; // what has changed since the page was made is told first
let source = null;
let wanted = new Set();
let fetching = false;
let leaving = false;
let timer = null;

const parts = () => [...document.querySelectorAll("[data-fragment]")];
const touches = (part, event) => {
  const kinds = (part.dataset.on ?? "run job").split(" ");
  return event === "reset" || kinds.includes(event.split(".")[0]);
};

const show = (state) => {
  const badge = document.getElementById("live");
  if (!badge) return;
  badge.hidden = state === "live";
  badge.textContent = state === "live" ? "" : "reconnecting";
};

const fetched = new Map();
const later = new Set();

// Returns whether a part may be fetched now; one that was fetched a moment ago is asked for again later, once.
const mayCome = (name) => {
  const least = Number(document.querySelector(`[data-fragment="${name}"]`)?.dataset.least ?? LEAST);
  const rest = (fetched.get(name) ?? -Infinity) + least - performance.now();
  if (rest <= 0) return true;
  if (!later.has(name)) {
    later.add(name);
    setTimeout(() => later.delete(name) && ask([name]), rest);
  }
  return false;
};

const ask = (names) => {
  for (const name of names) if (mayCome(name)) wanted.add(name);
  if (timer === null && !fetching && wanted.size) timer = setTimeout(refresh, TOGETHER);
};

const askAll = () => ask(parts().map((part) => part.dataset.fragment));

const refresh = async () => {
  timer = null;
  const names = [...wanted];
  wanted = new Set();
  if (!names.length || document.hidden || leaving) return;
  fetching = true;
  for (const name of names) fetched.set(name, performance.now());
  mark(names, true);
  try {
    const address = new URL(location.href);
    address.searchParams.set("fragment", names.join(","));
    const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.ok) swapAll(await answer.text(), names);
    else if (answer.status < 500 && !leaving) location.reload(); // the server answers with the login page, or says what is gone
  } catch {
    show("gone");
  } finally {
    mark(names, false);
    fetching = false;
    ask([]);
  }
};

// Seen only when it takes long: the style waits a moment.
const mark = (names, loading) => {
  for (const name of names) document.querySelector(`[data-fragment="${name}"]`)?.classList.toggle("loading", loading);
};

const swapAll = (html, names) => {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const name of names) {
    const before = document.querySelector(`[data-fragment="${name}"]`);
    const after = fresh.querySelector(`[data-fragment="${name}"]`);
    if (before && after) swap(before, after);
  }
};

// A part with an open menu or a focused field is not replaced: it is fetched again later.
const busy = (part) =>
  part.querySelector("details.menu[open], dialog[open]") ||
  (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=hidden], [type=checkbox]), textarea, select"));

const swap = (before, after) => {
  before.classList.remove("loading");
  if (before.outerHTML === after.outerHTML) return;
  if (busy(before)) {
    before.addEventListener("focusout", () => ask([before.dataset.fragment]), { once: true });
    return;
  }
  const kept = remember(before);
  const made = document.importNode(after, true);
  const announced = before.dataset.announce;
  before.replaceWith(made);
  recall(made, kept);
  if (made.dataset.announce && made.dataset.announce !== announced) tell(made.dataset.announce);
  made.dispatchEvent(new CustomEvent("rota:swapped", { bubbles: true }));
};

const path = (element, root) => {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const steps = [];
  for (let one = element; one && one !== root; one = one.parentElement) {
    steps.unshift(`${one.tagName.toLowerCase()}:nth-child(${[...one.parentElement.children].indexOf(one) + 1})`);
  }
  return `:scope > ${steps.join(" > ")}`;
};

const remember = (part) => ({
  focus: part.contains(document.activeElement) && document.activeElement !== part ? path(document.activeElement, part) : null,
  open: [...part.querySelectorAll("details[open][id]")].map((one) => one.id),
  checked: [...part.querySelectorAll("input[type=checkbox][id]:checked")].map((one) => one.id),
  scroll: [...part.querySelectorAll("[data-keep-scroll][id]")].map((one) => [one.id, one.scrollLeft, one.scrollTop]),
});

const recall = (part, kept) => {
  for (const id of kept.checked) {
    const box = part.querySelector(`#${CSS.escape(id)}`);
    if (box) box.checked = true;
  }
  for (const id of kept.open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  for (const [id, left, top] of kept.scroll) part.querySelector(`#${CSS.escape(id)}`)?.scrollTo(left, top);
  if (kept.focus) part.querySelector(kept.focus)?.focus({ preventScroll: true });
};

const follow = () => {
  if (source || (document.hidden && !follows()) || !(parts().length || follows())) return;
  source = new EventSource(`${base}/api/v1/events?after=${seq}`);
  source.addEventListener("open", () => {
    if (lost) askAll(); // what happened meanwhile
    lost = false;
    show("live");
  });
  source.addEventListener("error", () => {
    lost = true;
    show("gone");
    if (source?.readyState === EventSource.CLOSED) {
      leave();
      setTimeout(follow, AGAIN);
    }
  });
  for (const event of EVENTS) {
    source.addEventListener(event, (message) => {
      seq = message.lastEventId || seq;
      ask(parts().filter((part) => touches(part, event)).map((part) => part.dataset.fragment));
      document.dispatchEvent(new CustomEvent(`rota:${event}`, { detail: message.data }));
    });
  }
};

const leave = () => {
  source?.close();
  source = null;
};

const clocks = new Map();
const byTime = () => {
  const now = performance.now();
  for (const part of parts()) {
    const every = Number(part.dataset.every);
    const name = part.dataset.fragment;
    if (!every) continue;
    if (!clocks.has(name)) clocks.set(name, now);
    if (now - clocks.get(name) >= every && !document.hidden) {
      clocks.set(name, now);
      ask([name]);
    }
  }
};

// What a form does may take away what is shown here. The page that it leads to comes soon; if none does, we go on.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  leaving = true;
  setTimeout(() => {
    leaving = false;
    askAll();
  }, AGAIN);
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden && !follows()) leave();
  if (!document.hidden) {
    follow();
    askAll();
  }
});
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  follow();
  askAll();
});

document.addEventListener("rota:due", (event) => ask([event.detail]));

follow();
goOn();
watch(follow);
setInterval(byTime, 500);
