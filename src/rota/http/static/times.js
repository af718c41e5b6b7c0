// Times that go on while a page is open: `3 min ago`, `in 2 h 5 min`, how long a run takes so far.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export const say = (seconds) => {
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  let whole = Math.floor(seconds);
  const parts = [];
  for (const [size, name] of UNITS) {
    const count = Math.floor(whole / size);
    whole %= size;
    if (count) parts.push(`${count} ${name}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
};

const words = (time, now) => {
  const away = (Date.parse(time.dateTime) - now) / 1000;
  if (time.dataset.time === "elapsed") return say(Math.max(0, Math.floor(-away)));
  if (Math.abs(away) < 1) return "now";
  return away > 0 ? `in ${say(Math.floor(away))}` : `${say(Math.floor(-away))} ago`;
};

// A coming instant that has passed is no longer shown as one; its part of the page is fetched again.
const pass = (item) => {
  delete item.dataset.coming;
  if (item.matches("li")) item.hidden = true;
  else item.textContent = "due now";
  const part = item.closest("[data-fragment]");
  if (part) document.dispatchEvent(new CustomEvent("rota:due", { detail: part.dataset.fragment }));
};

// The server's clock counts, not that of the browser.
export const goOn = () => {
  const started = performance.now();
  const told = document.querySelector("main[data-now]")?.dataset.now;
  const first = told ? Date.parse(told) : Date.now();
  const round = () => {
    if (document.hidden) return;
    const now = first + (performance.now() - started);
    for (const time of document.querySelectorAll('time[data-time="relative"], time[data-time="elapsed"]')) {
      const text = words(time, now);
      if (text !== time.textContent) time.textContent = text;
    }
    for (const item of document.querySelectorAll("[data-coming]")) {
      const time = item.querySelector('time[data-time="relative"]');
      if (time && Date.parse(time.dateTime) <= now) pass(item);
    }
  };
  setInterval(round, 1000);
};
