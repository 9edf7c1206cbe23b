// What a run is: where it was made, with what, and what else happened.
function aboutPage(state, info) {
  const facts = [
    ["state", info.state],
    ["started", moment(info.created)],
    [
      "steps",
      info.steps.count
        ? `${count(info.steps.count)} recorded, ${count(info.steps.first)} to ${count(info.steps.last)}`
        : "none",
    ],
    ["tensors", count(info.modules.reduce((n, m) => n + m.tensors.length, 0))],
    ["ranks", info.ranks.length === info.world ? String(info.world) : `${info.ranks.length} of ${info.world}`],
    ["size", bytes(info.bytes)],
    info.damage === "none" ? null : ["damage", info.damage],
  ].filter(Boolean);
  const list = (title, rows) =>
    rows.length
      ? h(
          "article",
          { class: "parting" },
          h("h3", {}, title),
          h(
            "dl",
            {},
            rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, said(value))]),
          ),
        )
      : null;
  // What several ranks say alike is said once.
  const alike = new Map();
  for (const each of [...info.events].sort((a, b) => (a.step ?? Infinity) - (b.step ?? Infinity) || a.time - b.time)) {
    const when = each.step === null ? moment(each.time) : `step ${count(each.step)}`,
      text = eventText(each.event, each.details || {}),
      key = `${when} ${text}`;
    if (!alike.has(key)) alike.set(key, { when, text, ranks: [] });
    alike.get(key).ranks.push(each.rank);
  }
  const news = [...alike.values()].map(({ when, text, ranks }) => {
    const all = new Set(ranks).size === info.world ? "all ranks" : plural(ranks.length, "rank");
    return [info.world > 1 ? `${when}, ${ranks.length > 1 ? all : `rank ${ranks[0]}`}` : when, text];
  });
  return h(
    "section",
    { class: "page narrow" },
    list(info.name, facts),
    list("Settings of the recording", recordedHow(info.config)),
    list(
      "Environment",
      Object.entries(info.environment).map(([name, value]) => [
        name,
        ["command", "arguments"].includes(name) && Array.isArray(value) ? value.join(" ") : value,
      ]),
    ),
    list("Other events", news),
  );
}

// What was set for the recording, in the words of the other pages.
function recordedHow({ every, share, first, taps, variables, program, ...rest }) {
  const which =
    every === "auto"
      ? `as many as ${share ? percent(share) : "a part"} of the time allows`
      : every === 1
        ? "each"
        : Number.isInteger(every)
          ? `one of ${count(every)}`
          : every;
  return [
    every === undefined ? null : ["steps", which],
    first ? ["first step", count(first)] : null,
    Array.isArray(taps) ? ["kinds", taps.map(kindName).join(", ") || "none"] : null,
    variables?.length ? ["variables", variables] : null,
    program ? ["script", program] : null,
    ...Object.entries(rest),
  ].filter(Boolean);
}

// An event as a sentence; those that have none are told by their details.
function eventText(event, details) {
  if (event === "optimizer" && Array.isArray(details.groups))
    return `optimizer ${details.optimizer}${details.name ? ` (${details.name})` : ""}: ${details.groups.map(groupText).join("; ")}`;
  if (event === "loss") return `backward() ran on ${details.name}`;
  if (event === "graph")
    return `captured the graph: ${plural(details.nodes, "node")}, ${count(details.leaves)} of them leaves`;
  if (event === "every") return `records one of ${plural(details.every, "step")} from here on: ${details.why}`;
  if (event === "calls not seen") return `${event}, of ${said(details.modules)}. ${details.why}`;
  return `${event}: ${Object.entries(details)
    .map(([k, v]) => `${k} ${said(v)}`)
    .join(", ")}`;
}
// What is set in a group of parameters; what is off or 0 goes without saying, but for a learning rate.
const groupText = ({ tensors, ...set }) =>
  [
    plural(tensors, "tensor"),
    ...Object.entries(set)
      .filter(([name, v]) => name === "lr" || (v && v !== "none"))
      .map(([name, v]) => (v === true ? name : `${name} ${said(v)}`)),
  ].join(", ");
