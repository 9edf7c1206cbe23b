const KEY = 36; // the height of what stands below the picture and explains its marks

// "1 4-7 20-24/2" are the numbers 1, 4, 5, 6, 7, 20, 22 and 24.
function numbers(spelt) {
  return spelt
    .split(" ")
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first, by = 1] = part.split(/[-/]/).map(Number);
      return Array.from({ length: 1 + Math.floor((last - first) / by) }, (_, k) => first + k * by);
    });
}

// Return what lights the node of a step in the picture, and marks what has run and what receives what leaves; a click on
// a box goes to its next step. Of a walk that is done, what has none of `steps` ran before them.
function lamps(picture, steps, done, show) {
  const stepOf = new Map(steps.map((step, k) => [step.node, k]));
  const known = (node) => stepOf.has(node);
  const all = [...(picture ? picture.querySelectorAll("[data-node]") : [])].map((element) => {
    const own = numbers(element.dataset.node)
      .filter(known)
      .map((node) => stepOf.get(node));
    if (done && !own.length) element.classList.add("run");
    return { element, own };
  });
  const found = all.filter(({ own }) => own.length);
  const svg = picture && picture.querySelector("svg");
  if (svg) svg.style.minWidth = `${0.7 * svg.width.baseVal.value}px`; // a little smaller rather than cut off
  let now = 0;
  for (const { element, own } of found) {
    own.sort((a, b) => a - b);
    element.classList.add("lamp");
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      show(own.find((k) => k > now) ?? own[0]);
    });
  }
  return (k) => {
    now = k;
    const here = found.filter(({ own }) => own.includes(k));
    const next = receivers(steps, stepOf, k, here);
    for (const place of found) {
      const { element, own } = place;
      element.classList.toggle("lit", here.includes(place));
      element.classList.toggle("run", own[0] < k);
      element.classList.toggle(
        "next",
        own.some((step) => next.has(step)),
      );
    }
    if (here.length) reveal(picture, here[0].element);
  };
}

// The steps to which the gradient goes from step `k`; behind a view that has no box of its own, those that it goes to.
function receivers(steps, stepOf, k, here) {
  const found = new Set();
  const waiting = [k];
  while (waiting.length) {
    for (const { node } of steps[waiting.pop()].out || []) {
      const to = stepOf.get(node);
      if (to !== undefined && steps[to].view && here.some(({ own }) => own.includes(to))) waiting.push(to);
      else found.add(to);
    }
  }
  return found;
}

// Scroll within the pane alone: scrollIntoView would move the notebook around the page, too.
function reveal(pane, element) {
  const [own, around] = [element.getBoundingClientRect(), pane.getBoundingClientRect()];
  if (own.top < around.top || own.bottom > around.bottom - KEY) {
    pane.scrollTop += own.top - around.top - (around.height - own.height) / 2;
  }
  if (own.left < around.left || own.right > around.right) {
    pane.scrollLeft += own.left - around.left - (around.width - own.width) / 2;
  }
}
