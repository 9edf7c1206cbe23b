// How the values of many tensors are spread, a picture each on one page. What comes into sight is read, and no more.
const SPREAD = "spread", // in the place of a statistic
  LOW = 120; // how high a picture is, where there are many

function spreads(place, below, { state, info, kind, app }) {
  const { wanted } = finder(state.find),
    named = info.modules.flatMap((m) => m.tensors).filter(([, k]) => k === kind),
    found = named.filter(([name]) => wanted(name)),
    cursor = newCursor(null),
    waiting = new Map();
  place.classList.remove("heat");
  fill(below);
  if (!found.length) {
    const all = named.map(([name]) => name);
    fill(
      place,
      noMatch(state.find, all, `the ${kindName(kind)}`, (find) => app.go({ ...state, kind, stat: SPREAD, find })),
    );
    return;
  }
  const sight = new IntersectionObserver(
    (seen_) => {
      for (const { target, isIntersecting } of seen_)
        if (isIntersecting) {
          sight.unobserve(target);
          waiting.get(target)();
        }
    },
    { rootMargin: "200px" },
  );
  const { first: from, last: to } = info.steps;
  const cards = found.map(([name, , shape]) => {
    const board = h("div", { class: "slot" }),
      open = (step) => app.go({ page: "tensor", run: state.run, rank: state.rank, tensor: name, kind, step }),
      to_ = address({ page: "tensor", run: state.run, rank: state.rank, tensor: name, kind });
    const card = h(
      "figure",
      { class: "panel" },
      h(
        "figcaption",
        {},
        h("h3", { title: name }, h("a", { href: to_ }, name)),
        h("span", { class: "soft" }, shaped(shape)),
      ),
      board,
    );
    waiting.set(card, () => {
      fill(board, busy("reading"));
      magnitudes(board, {
        state: { ...state, tensor: name, kind },
        first: Number(state.first ?? from),
        last: Math.max(Number(state.last ?? to), Number(state.first ?? from) + 1),
        cursor,
        pick: open,
        finite: true,
        app,
        height: LOW,
      });
    });
    sight.observe(card);
    return card;
  });
  fill(place, h("div", { class: "stack cards spreads" }, cards));
  fill(
    below,
    h("p", { class: "soft" }, "share of the elements by power of two, over the steps; each picture has its own scale"),
  );
}
