// What is under the pointer on the timeline, told at once; without scripts the browser shows the same words by itself.

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

const words = (element) => {
  const title = element.querySelector(":scope > title");
  if (title) {
    element.dataset.tip = title.textContent;
    title.remove();
  }
  return element.dataset.tip;
};

document.addEventListener("pointerover", (event) => {
  const element = event.target.closest?.(".lane svg rect, .lane svg .fires");
  const text = element && words(element);
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, room))}px`;
  tip.style.top = `${event.clientY + 16}px`;
});
document.addEventListener("rota:swapped", () => {
  tip.hidden = true;
});
