// The grid and the list of jobs on the first page. `jobs.js` has the jobs; the address says which are shown:
// #q=words&platform=emu-a2a3&state=mismatch&new=1&group=0. Texts are set as text, never as HTML.
"use strict";
(() => {
  const { sides, texts, states, pages, jobs } = window.dashboard;
  const SIDE = Object.fromEntries(sides.map((side, index) => [side, index]));
  const STEP = 200;
  const form = document.getElementById("filters");
  const body = document.querySelector("#list tbody");
  const more = document.getElementById("more");
  let found = [];
  let listed = 0;

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const text = (job, side) => texts[SIDE[side]][job[1 + SIDE[side]]];
  const [SECONDS, GROUP, NEW, MESSAGE] = [0, 1, 2, 3].map((place) => 1 + sides.length + place);
  const page = (job) => {
    if (Object.hasOwn(pages, job[0])) return `jobs/${encodeURIComponent(pages[job[0]])}`;
    const name = encodeURIComponent(job[0])
      .replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll("%40", "@").replaceAll("%2F", "+");
    return `jobs/${encodeURIComponent(name).replaceAll("%40", "@").replaceAll("%2B", "+")}.html`;
  };
  const mark = (job) => {
    const [sign, outcome] = states[text(job, "state")];
    return element("span", { class: `mark ${outcome}`, "aria-hidden": "true" }, sign);
  };

  // New failures come first, then other failures, then what was not judged; the others keep their order.
  const OUTCOMES = ["failure", "error", "passed", "skipped"];
  const rank = (job) => OUTCOMES.indexOf(states[text(job, "state")][1]) - (job[NEW] ? OUTCOMES.length : 0);
  const urgent = jobs.toSorted((one, other) => rank(one) - rank(other));

  const wanted = () => new URLSearchParams(location.hash.slice(1));
  const filtered = (asked) => {
    const words = (asked.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const numbers = sides.map((side) => (asked.get(side) ? texts[SIDE[side]].indexOf(asked.get(side)) : null));
    return urgent.filter((job) => {
      if (numbers.some((number, index) => number !== null && job[1 + index] !== number)) return false;
      if (asked.get("new") && !job[NEW]) return false;
      if (asked.get("group") && job[GROUP] !== Number(asked.get("group"))) return false;
      const told = words.length ? `${job[0]} ${text(job, "state")} ${job[MESSAGE]}`.toLowerCase() : "";
      return words.every((word) => told.includes(word));
    });
  };

  const grids = () => {
    const lanes = new Map();
    for (const job of found) {
      const lane = text(job, "lane");
      if (!lanes.has(lane)) lanes.set(lane, { columns: new Map(), rows: new Map() });
      const { columns, rows } = lanes.get(lane);
      const column = `${text(job, "platform")}\n${text(job, "profile")}`;
      const row = [text(job, "workload"), text(job, "geometry"), text(job, "kernel")].join("\n");
      if (!columns.has(column)) columns.set(column, columns.size);
      if (!rows.has(row)) rows.set(row, new Map());
      rows.get(row).set(column, job);
    }
    return [...lanes].map(([lane, { columns, rows }]) => {
      const ordered = [...columns.keys()].sort();
      const platforms = new Map();
      for (const column of ordered) {
        const platform = column.split("\n")[0];
        platforms.set(platform, (platforms.get(platform) || 0) + 1);
      }
      const above = element("tr", {}, element("th", { scope: "col", rowspan: 2 }, "workload, geometry, kernel"));
      for (const [platform, count] of platforms) {
        above.append(element("th", { scope: "colgroup", colspan: count }, platform));
      }
      const below = element("tr");
      for (const column of ordered) below.append(element("th", { scope: "col" }, column.split("\n")[1] || "all"));
      const lines = [...rows].map(([row, cells]) => {
        const line = element("tr", {}, element("th", { scope: "row" }, row.replaceAll("\n", " ")));
        for (const column of ordered) {
          const job = cells.get(column);
          const cell = element("td");
          if (job) {
            const said = `${text(job, "state")}${job[NEW] ? ", new" : ""}: ${job[0]}`;
            const [sign, outcome] = states[text(job, "state")];
            const told = { class: `mark ${outcome}`, href: page(job), title: said, "aria-label": said };
            cell.append(element("a", told, sign));
          }
          line.append(cell);
        }
        return line;
      });
      const heading = element("h3", { id: `lane-${lane}` }, `Lane ${lane}`);
      const table = element("table", { class: "grid", "aria-labelledby": heading.id },
        element("thead", {}, above, below), element("tbody", {}, ...lines));
      const around = { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": heading.id };
      return element("section", {}, heading, element("div", around, table));
    });
  };

  const list = () => {
    for (const job of found.slice(listed, listed + STEP)) {
      body.append(element("tr", {},
        element("td", {}, mark(job), ` ${text(job, "state")}${job[NEW] ? ", new" : ""}`),
        element("td", {}, element("a", { href: page(job) }, job[0])),
        element("td", { class: "number" }, job[SECONDS].toFixed(2)),
        element("td", {}, job[MESSAGE])));
    }
    listed = Math.min(listed + STEP, found.length);
    more.hidden = listed === found.length;
    more.textContent = `Show more (${listed} of ${found.length} are listed)`;
  };

  const show = () => {
    const asked = wanted();
    for (const field of form.elements) {
      if (field.type === "checkbox") field.checked = asked.get(field.name) === field.value;
      else if (field.name && field !== document.activeElement) field.value = asked.get(field.name) || "";
    }
    found = filtered(asked);
    const only = asked.get("group") ? " of one cause" : "";
    document.getElementById("count").textContent = `${found.length} of ${jobs.length} jobs${only}`;
    document.getElementById("grid").replaceChildren(...(found.length ? grids() : ["No job matches all of these."]));
    body.replaceChildren();
    listed = 0;
    list();
  };
  const ask = (emptied) => {
    const asked = new URLSearchParams();
    if (wanted().get("group") && !emptied) asked.set("group", wanted().get("group"));
    for (const [name, value] of new FormData(form)) if (value) asked.set(name, value);
    history.replaceState(null, "", `#${asked}`);
    show();
  };

  const places = document.getElementById("sides");
  for (const side of sides) {
    const known = texts[SIDE[side]].filter(Boolean);
    if (known.length < 2) continue;
    const choice = element("select", { name: side }, element("option", { value: "" }, "all"));
    choice.append(...known.toSorted().map((name) => element("option", { value: name }, name)));
    places.append(element("label", {}, side, choice));
  }
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, 120, false);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(ask, 0, true));
  more.addEventListener("click", list);
  addEventListener("hashchange", () => {
    if (location.hash.includes("=")) {
      show();
      document.getElementById("jobs").scrollIntoView();
    }
  });
  show();
})();
