const { ops, steps: told } = JSON.parse(document.getElementById("walk").textContent);
const steps = told.map((step) => ({ ...ops[step.op], ...step }));
const $ = (id) => document.getElementById(id);
let now = 0;

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
  return make("figure", "g", caption, g.grid ? grid(g.grid, false) : null);
}

function jacobian(j) {
  const caption = make("figcaption", "", `J of ${j.name} · ${j.text}`);
  return make("figure", "g", caption, j.grid ? grid(j.grid, true) : null);
}

function flow(step) {
  const parts = [make("div", "flow", ...(step.in || []).map((g) => gradient(g, "g arriving")))];
  const by = Object.fromEntries((step.jacobians || []).map((j) => [j.name, j]));
  for (const g of step.out || []) {
    const j = by[g.name];
    const through = j && j.grid ? [make("span", "sign", "g ·"), jacobian(j), make("span", "sign", "=")] : [];
    const told = j && !j.grid ? jacobian(j) : null;
    parts.push(make("div", "flow", ...through, gradient(g, `to ${g.name}`), told));
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
    step.check ? make("p", `check ${verdict}`, step.check[1]) : null,
  ].filter(Boolean);
}

function show(k, focus) {
  if (!steps.length) return;
  now = Math.max(0, Math.min(steps.length - 1, k));
  const step = steps[now];
  $("card").replaceChildren(...card(step));
  $("card").scrollTop = 0;
  [...$("steps").children].forEach((li, i) => {
    li.firstChild.classList.toggle("here", i === now);
    if (i === now) li.firstChild.setAttribute("aria-current", "step");
    else li.firstChild.removeAttribute("aria-current");
  });
  const here = $("steps").children[now];
  here.scrollIntoView({ block: "nearest" });
  if (focus) here.firstChild.focus();
  $("at").value = now;
  $("count").value = `step ${step.n + 1} of ${steps[steps.length - 1].n + 1}`;
  $("back").disabled = now === 0;
  $("forth").disabled = now === steps.length - 1;
  document.querySelectorAll("#picture .lit").forEach((e) => e.classList.remove("lit"));
  document.querySelectorAll(`#picture [data-node~="${step.node}"]`).forEach((e) => e.classList.add("lit"));
}

let module = "";
$("steps").append(
  ...steps.map((step, k) => {
    const short = step.name.length > 26 ? "…" + step.name.slice(-25) : step.name;
    const name = make("span", "name", (step.kind === "leaf" ? "→ " : "") + short);
    name.title = step.name;
    const button = make("button", `${step.kind} ${step.bad ? "bad" : ""}`, make("span", "n", String(step.n)), name);
    button.append(make("span", "norm", step.norm));
    button.addEventListener("click", () => show(k));
    const li = make("li", "", button);
    if (step.module && step.module !== module) li.dataset.module = module = step.module;
    return li;
  }),
);
$("at").max = Math.max(0, steps.length - 1);
$("at").addEventListener("input", () => show(Number($("at").value)));
$("back").addEventListener("click", () => show(now - 1));
$("forth").addEventListener("click", () => show(now + 1));
document.addEventListener("keydown", (event) => {
  if (event.target === $("at") || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const to = by ? now + by : { Home: 0, End: steps.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(to, true);
});
if (steps.length) show(Number(location.hash.slice(1)) || 0);
else $("card").append("No step has been made: call run(), step() or until() first.");
