const NS = "http://www.w3.org/2000/svg";

function drawn(tag, attributes) {
  const e = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

// Draw the norm of what arrives at each step, a line for operations and a dot for a leaf; return what marks a step.
function curve(steps, show) {
  const norms = steps.map((step) => Math.hypot(...(step.in || []).map((g) => Number(g.norm))));
  const logs = norms.map((norm) => (norm > 0 && norm < Infinity ? Math.log10(norm) : null));
  const known = logs.filter((log) => log !== null);
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 0];
  const x = (k) => ((100 * (k + 0.5)) / steps.length).toFixed(2);
  const y = (k) => (95 - (90 * (logs[k] - low)) / (high - low || 1)).toFixed(1);
  const all = [...steps.keys()];
  const shown = all.filter((k) => logs[k] !== null);
  const line = shown.filter((k) => steps[k].kind !== "leaf").map((k) => `${x(k)} ${y(k)}`);
  const dots = shown.filter((k) => steps[k].kind === "leaf").map((k) => `M${x(k)} ${y(k)}h0`);
  const bad = all.filter((k) => steps[k].bad).map((k) => `M${x(k)} 0V100`);
  const here = drawn("path", { class: "here" });
  const svg = drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(
    drawn("path", { class: "bad", d: bad.join("") }),
    here,
    drawn("path", { class: "line", d: line.length ? `M${line.join("L")}` : "" }),
    drawn("path", { class: "leaf", d: dots.join("") }),
  );
  svg.addEventListener("click", (event) => {
    const { left, width } = svg.getBoundingClientRect();
    show(Math.floor((steps.length * (event.clientX - left)) / width));
  });
  const range = known.length ? `${(10 ** low).toPrecision(2)} to ${(10 ** high).toPrecision(2)}, log scale` : "";
  const caption = make("figcaption", "", `norm of what arrives, ${range} · `, make("i", "", "•"), " at a leaf");
  $("curve").append(caption, svg);
  return (k) => here.setAttribute("d", `M${x(k)} 0V100`);
}
