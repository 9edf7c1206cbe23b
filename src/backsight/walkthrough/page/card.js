// An element with children; names come in as text, never as markup.
function make(tag, style, ...children) {
  const e = document.createElement(tag);
  if (style) e.className = style;
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

function grid(rows, small) {
  const peak = Math.max(...rows.flat().map((v) => (typeof v === "number" ? Math.abs(v) : 0))) || 1;
  const cell = (v) => {
    const td = make("td", "", small ? "" : String(v));
    if (typeof v === "number" && v) {
      td.style.background = `rgba(var(--${v > 0 ? "more" : "less"}),${(0.12 + (0.5 * Math.abs(v)) / peak).toFixed(2)})`;
    }
    if (small) td.title = String(v);
    return td;
  };
  return make("table", small ? "small" : "", ...rows.map((row) => make("tr", "", ...row.map(cell))));
}

function gradient(g, head) {
  const caption = make("figcaption", "", `${head} · ${g.shape} · norm ${g.norm}`);
  return make("figure", "g", caption, g.grid ? grid(g.grid, false) : g.first ? make("code", "", g.first) : null);
}

// A Jacobian of a few entries shows its numbers, a larger one its pattern.
function jacobian(j) {
  const caption = make("figcaption", "", `Jacobian for ${j.name} · ${j.text}`);
  return make("figure", "g", caption, j.grid ? grid(j.grid, j.grid.flat().length > 36) : null);
}

// A sign that stays with what it stands before, wherever the line breaks.
function after(sign, figure) {
  return make("div", "pair", make("span", "sign", sign), figure);
}

function flow(step) {
  const parts = [make("div", "flow", ...(step.in || []).map((g) => gradient(g, "g arriving")))];
  const by = Object.fromEntries((step.jacobians || []).map((j) => [j.name, j]));
  for (const g of step.out || []) {
    const j = by[g.name];
    const left = gradient(g, `to ${g.name}`);
    const shown = j && j.grid ? [after("g ·", jacobian(j)), after("=", left)] : [left, j ? jacobian(j) : null];
    parts.push(make("div", "flow", ...shown));
  }
  return parts;
}

function card(step) {
  const where = [step.kind === "op" || step.kind === "leaf" ? "" : step.kind, step.module].filter(Boolean).join(" · ");
  const title = (step.kind === "leaf" ? "→ " : "") + step.name;
  const formula = (step.formula || []).map(([name, text]) => make("div", "", make("code", "", `${name}: ${text}`)));
  const signature = step.signature ? make("div", "signature", make("code", "", step.signature)) : null;
  const notes = step.notes ? make("ul", "notes", ...step.notes.map((n) => make("li", "", n))) : null;
  const verdict = step.check && (step.check[0] === true ? "yes" : step.check[0] === false ? "no" : "");
  return [
    make("h2", "", title, where ? make("small", "", where) : null),
    step.words ? make("p", "words", step.words) : null,
    signature || formula.length ? make("div", "formula", signature, ...formula) : null,
    notes,
    ...flow(step),
    step.kind === "leaf"
      ? null
      : make(
          "p",
          `check ${verdict}`,
          step.check ? step.check[1] : `print(walk.steps[${step.n}]) shows the Jacobian, and checks it.`,
        ),
  ].filter(Boolean);
}
