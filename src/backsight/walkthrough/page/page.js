const { ops, steps: told, done } = JSON.parse(document.getElementById("walk").textContent);
const steps = told.map((step) => ({ ...ops[step.op], ...step }));
const $ = (id) => document.getElementById(id);
const CURVE = 12; // steps from which on their norms are drawn as a curve
let now = 0;
const light = lamps($("picture"), steps, done, show);
const mark = steps.length >= CURVE ? curve(steps, show) : () => {};

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
  reveal($("steps"), here);
  if (focus) here.firstChild.focus({ preventScroll: true });
  $("at").value = now;
  $("count").value = `step ${step.n} of 0–${steps.at(-1).n}, node #${step.node}`;
  $("back").disabled = now === 0;
  $("forth").disabled = now === steps.length - 1;
  light(now);
  mark(now);
}

// A leaf's name as seen from the module: `weight`; of another leaf the end of its path, or all there is.
function within(name, module) {
  const at = module ? name.indexOf(`${module}.`) : -1;
  const own = at < 0 ? name : name.slice(at + module.length + 1);
  return own.length > 18 && /^[\w.]+$/.test(own) ? `…${own.slice(-17)}` : own;
}

let module = "";
$("steps").append(
  ...steps.map((step, k) => {
    const li = make("li", "");
    if (step.module && step.module !== module) li.dataset.module = module = step.module;
    const name = make("span", "name", step.kind === "leaf" ? `→ ${within(step.name, module)}` : step.name);
    name.title = step.name;
    const button = make(
      "button",
      `${step.trained || ""} ${step.bad ? "bad" : ""}`,
      make("span", "n", `#${step.node}`),
      name,
    );
    button.append(make("span", "norm", step.norm));
    button.addEventListener("click", () => show(k));
    li.append(button);
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
