// A picture that the server has drawn, taken into the page: shapes and texts only, and how to bring a part into sight.
const DRAWN = new Set(["svg", "g", "path", "rect", "text"]);
const KEPT = new Set(
  "class d x y width height rx transform viewBox textLength lengthAdjust data-box data-node data-group".split(" "),
);

// The server's picture as elements of ours: only shapes and text of those known here come in, whatever a name holds.
function imported(text) {
  const source = new DOMParser().parseFromString(text, "image/svg+xml");
  if (source.querySelector("parsererror")) throw new Error("Cannot read the picture of this graph.");
  const copy = (from) => {
    if (!DRAWN.has(from.localName)) return null;
    const to = document.createElementNS("http://www.w3.org/2000/svg", from.localName);
    for (const { name, value } of from.attributes) if (KEPT.has(name)) to.setAttribute(name, value);
    for (const child of from.childNodes) {
      if (child.nodeType === 3 && from.localName === "text") to.append(child.data);
      const inner = child.nodeType === 1 ? copy(child) : null;
      if (inner) to.append(inner);
    }
    return to;
  };
  const told = new Map(
    [...source.querySelectorAll("[data-box]")].map((g) => [
      g.dataset.box,
      [...g.children].find((c) => c.localName === "title")?.textContent || "",
    ]),
  );
  const svg = copy(source.documentElement);
  svg.querySelector("rect.page")?.remove();
  return [svg, told];
}

// "1 4-7 20-24/2" are the numbers 1, 4, 5, 6, 7, 20, 22 and 24.
const spelledNumbers = (text) =>
  text
    .split(" ")
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first, by = 1] = part.split(/[-/]/).map(Number);
      return Array.from({ length: 1 + Math.floor((last - first) / by) }, (_, k) => first + k * by);
    });

// The text in the corner of a box, for which the picture has left room: it grows to the left.
function numberOf(g) {
  const text = [...g.children].find((c) => c.classList.contains("amount"));
  if (!text) return null;
  text.setAttribute("x", Number(text.getAttribute("x")) + Number(text.getAttribute("textLength")));
  text.setAttribute("text-anchor", "end");
  text.removeAttribute("textLength");
  text.removeAttribute("lengthAdjust");
  return text;
}

function isInSight(element, pane) {
  const a = element.getBoundingClientRect(),
    b = pane.getBoundingClientRect();
  return a.top >= b.top && a.bottom <= b.bottom && a.left >= b.left && a.right <= b.right;
}
function intoSight(element, pane) {
  const a = element.getBoundingClientRect(),
    b = pane.getBoundingClientRect();
  pane.scrollTop += a.top - b.top - (b.height - a.height) / 2;
  pane.scrollLeft += a.left - b.left - (b.width - a.width) / 2;
}
