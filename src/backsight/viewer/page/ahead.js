// What the page asks first is on its way while the rest of it is read: `source.js` finds it by its address. The rest makes
// sure of what the address says; what it does not ask for in the end was asked in vain.
(() => {
  const sent = new Map(),
    ask = (url) => {
      const answer = fetch(url, { headers: { accept: "application/json" } });
      answer.catch(() => {}); // whoever takes it hears of it
      sent.set(url, answer);
    };
  document.currentScript.sent = sent;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?"),
    [run, page] = path.split("/"),
    given = new URLSearchParams(query || "");
  if (!run) return ask("api/runs");
  let name = run;
  try {
    name = decodeURIComponent(run);
  } catch {
    /* as it stands */
  }
  ask(`api/ask/about?${new URLSearchParams({ run: name })}`);
  if ((page && page !== "heatmap") || !given.get("kind") || !given.get("stat") || given.get("stat") === "spread")
    return;
  const wanted = new URLSearchParams({ run: name });
  for (const key of ["kind", "stat", "first", "last", "rank"]) if (given.get(key)) wanted.set(key, given.get(key));
  wanted.set("columns", 600);
  ask(`api/ask/heatmap?${wanted}`);
})();
