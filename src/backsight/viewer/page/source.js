// Where answers come from: the viewer that serves this page, or what a report holds itself.
const held = document.getElementById("answers") ? JSON.parse(document.getElementById("answers").textContent) : null;
const LIVE = held === null;

// The key of an answer in a report, in which numbers stand as they are asked for; `report.py` spells it the same way.
const spelled = (question, given) =>
  `${question}?${Object.keys(given)
    .filter((k) => given[k] !== undefined && given[k] !== null && given[k] !== "")
    .sort()
    .map((k) => `${k}=${given[k]}`)
    .join("&")}`;

const ahead = document.getElementById("ahead")?.sent ?? new Map(); // what `ahead.js` has asked
async function asked(url, signal) {
  const sent = ahead.get(url) || fetch(url, { signal, headers: { accept: "application/json" } });
  ahead.delete(url);
  let response;
  try {
    response = await sent;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The viewer no longer answers. Is `backsight view` still running?");
  }
  if (response.ok) return response.json();
  const text = await response.text();
  let said = text;
  try {
    said = JSON.parse(text).error;
  } catch {
    /* plain text */
  }
  throw new Error(said || `The viewer answered ${response.status}.`);
}

async function ask(run, question, given = {}, signal = undefined) {
  if (!LIVE) {
    const answer = held.answers[spelled(question, given)];
    if (answer === undefined) throw new Error("This report does not contain that; open the run with `backsight view`.");
    return answer;
  }
  return asked(urlOf(run, question, given), signal);
}
function urlOf(run, question, given) {
  const query = new URLSearchParams({ run });
  for (const [key, value] of Object.entries(given))
    if (value !== undefined && value !== null && value !== "") query.set(key, value);
  return `api/ask/${question}?${query}`;
}
const askRuns = (signal) => (LIVE ? asked("api/runs", signal) : Promise.resolve(held.runs));
const holds = (question, given) => LIVE || spelled(question, given) in held.answers;
