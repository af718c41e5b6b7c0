// The output of a run: goes along with its end, wraps long lines or not, and finds lines. Without scripts it is a text.

const choices = { follow: null, wrap: true, times: false, find: "" };

const parts = () => ({
  log: document.getElementById("output-lines"),
  tools: document.querySelector("[data-output-tools]"),
  follow: document.querySelector("[data-follow]"),
  wrap: document.querySelector("[data-wrap]"),
  times: document.querySelector("[data-times]"),
  find: document.querySelector("[data-output-find]"),
  found: document.querySelector("[data-output-found]"),
});

const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 24;

const look = ({ log, found }) => {
  const text = choices.find.trim().toLowerCase();
  let hits = 0;
  for (const line of log?.children ?? []) {
    const hit = text !== "" && line.textContent.toLowerCase().includes(text);
    line.classList.toggle("hit", hit);
    line.classList.toggle("out", text !== "" && !hit);
    hits += hit ? 1 : 0;
  }
  if (found) found.textContent = text ? `${hits} of ${log?.children.length ?? 0} lines` : "";
};

const begin = () => {
  const all = parts();
  const { log, tools, follow, wrap, times, find } = all;
  if (!tools || !log) return;
  tools.hidden = false;
  if (choices.follow === null) choices.follow = follow.checked;
  follow.checked = choices.follow;
  wrap.checked = choices.wrap;
  find.value = choices.find;
  log.classList.toggle("unwrapped", !choices.wrap);
  log.classList.toggle("timed", choices.times);
  if (times) {
    times.checked = choices.times;
    times.addEventListener("change", () => {
      choices.times = times.checked;
      log.classList.toggle("timed", times.checked);
    });
  }
  look(all);
  if (choices.follow) log.scrollTop = log.scrollHeight;
  follow.addEventListener("change", () => {
    choices.follow = follow.checked;
    if (follow.checked) log.scrollTop = log.scrollHeight;
  });
  wrap.addEventListener("change", () => {
    choices.wrap = wrap.checked;
    log.classList.toggle("unwrapped", !wrap.checked);
  });
  find.addEventListener("input", () => {
    choices.find = find.value;
    look(parts());
  });
  log.addEventListener("scroll", () => {
    if (choices.follow && !atEnd(log)) choices.follow = follow.checked = false;
  });
};

begin();
document.addEventListener("rota:swapped", (event) => {
  if (event.target.id === "fragment-output") begin();
});
