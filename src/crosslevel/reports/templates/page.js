"use strict";
// The report's own script: it decodes tables, follows the drop-down lists, and hands rows to Vega. Text from data only ever
// becomes text: there is no innerHTML here, and names of columns in specifications are ours.
(() => {
  const CATEGORY = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"];
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // ---- tables ----
  const columnOf = (section, table, name) => {
    const found = section.tables[table].columns[name];
    return found && found.same ? section.tables[found.same[0]].columns[found.same[1]] : found;
  };
  const reader = (column) => {
    if (column.numbers) return (i) => column.numbers[i];
    return (i) => (column.codes[i] === null ? null : column.levels[column.codes[i]]);
  };
  const readers = (section, table) =>
    Object.fromEntries(Object.keys(section.tables[table].columns).map((name) => [name, reader(columnOf(section, table, name))]));
  // Which rows have the value in the column; codes are compared, not words, since tables have tens of thousands of rows.
  const matcher = (column, value) => {
    if (value === "") return () => true;
    if (column.numbers) return (i) => String(column.numbers[i]) === value;
    const code = column.levels.indexOf(value);
    return (i) => column.codes[i] === (code < 0 && value === "–" ? null : code); // a dash: rows without a value
  };
  const rowsWhere = (section, table, where, state) => {
    const tests = Object.entries(where).map(([name, choice]) => matcher(columnOf(section, table, name), state[choice]));
    const found = [];
    for (let i = 0; i < section.tables[table].n; i++) if (tests.every((test) => test(i))) found.push(i);
    return found;
  };
  const rowAt = (read, i, columns, state) => {
    const row = {};
    for (const name in read) row[name] = read[name](i);
    for (const name in columns) row[name] = read[state[columns[name]]] ? read[state[columns[name]]](i) : null;
    return row;
  };
  const rows = (section, source, state) => {
    const read = readers(section, source.table);
    const known = {}; // rows whose words are the same when joined, and are not the same, stay apart
    const joined = (name, parts) => {
      const words = parts.map((part) => part ?? "–").join(" · ");
      const alike = known[name].get(words) || [];
      const exact = JSON.stringify(parts);
      if (!alike.includes(exact)) known[name].set(words, [...alike, exact]);
      const at = alike.includes(exact) ? alike.indexOf(exact) : alike.length;
      return at ? `${words} (${at + 1})` : words;
    };
    for (const name in source.joined) known[name] = new Map();
    return rowsWhere(section, source.table, source.where, state).map((i) => {
      const row = rowAt(read, i, source.columns, state);
      for (const name in source.joined) row[name] = joined(name, source.joined[name].map((part) => row[part]));
      return row;
    });
  };

  // ---- maps ----
  const geometries = (shapes) => {
    shapes.made = shapes.made || shapes.places.map((rings) => {
      const points = rings.map((steps) => {
        const ring = [];
        let x = 0, y = 0;
        for (let k = 0; k < steps.length; k += 2) ring.push([(x += steps[k]), (y += steps[k + 1])]);
        return ring;
      });
      if (points.every((ring) => ring.length === 1)) return { type: "Point", coordinates: points[0][0] };
      for (const ring of points) ring.push(ring[0]);
      return { type: "Polygon", coordinates: points };
    });
    return shapes.made;
  };
  const features = (page, section, source, state) => {
    const read = readers(section, source.table);
    const found = new Map();
    for (const [side, where] of Object.entries(source.sides)) {
      for (const i of rowsWhere(section, source.table, where, state)) {
        const place = read[source.place](i);
        if (!found.has(place)) found.set(place, {});
        if (!found.get(place)[side]) found.get(place)[side] = rowAt(read, i, source.columns, state);
      }
    }
    const names = page.shapes.names[source.by];
    return geometries(page.shapes).map((geometry, k) => {
      const properties = { place: names[k] };
      for (const side in source.sides) properties[side] = (found.get(names[k]) || {})[side] || {};
      if (page.shapes.labels) properties.label = page.shapes.labels[k];
      const { a, b } = properties;
      if (a && b && typeof a.estimate === "number" && typeof b.estimate === "number") properties.difference = a.estimate - b.estimate;
      return { type: "Feature", geometry, properties };
    });
  };
  const dataOf = (page, section, view, state) =>
    Object.fromEntries(Object.entries(view.data).map(([name, source]) =>
      [name, source.kind === "rows" ? rows(section, source, state) : features(page, section, source, state)]));

  // ---- files ----
  const save = (name, href) => {
    const link = make("a");
    link.download = name;
    link.href = href;
    link.click();
  };
  const saveText = (name, text, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    save(name, address);
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (names, lines) => [names, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  const flat = (record, prefix, out) => {
    for (const [name, value] of Object.entries(record)) {
      if (value !== null && typeof value === "object") flat(value, `${prefix}${name}.`, out);
      else out[prefix + name] = value;
    }
    return out;
  };
  const shownCsv = (section, shown) => {
    const records = Object.values(shown)[0].map((r) => flat(r.type === "Feature" ? r.properties : r, "", {}));
    const names = [...new Set(records.flatMap(Object.keys))];
    const words = (name) => {
      const [last, ...sides] = name.split(".").reverse();
      return [...sides, Object.hasOwn(section.labels, last) ? section.labels[last] : last].join(".");
    };
    return csv(names.map(words), records.map((r) => names.map((n) => r[n])));
  };

  // ---- charts ----
  const config = () => {
    const [ink, soft, line, paper] = dark.matches && !matchMedia("print").matches
      ? ["#e7ebf0", "#a3adba", "#38414d", "#14181d"] : ["#1c2430", "#596473", "#d9dee5", "#ffffff"];
    const words = { labelColor: soft, titleColor: ink, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 260 };
    return {
      background: paper, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { ...words, domainColor: line, tickColor: line, gridColor: line, gridOpacity: 0.6 },
      legend: { ...words, orient: "bottom", gradientLength: 180 }, header: { ...words, labelColor: ink }, title: { color: ink },
      text: { color: ink }, style: { ink: { fill: ink, stroke: ink }, soft: { fill: soft, stroke: soft }, line: { fill: line, stroke: line } },
      range: { category: CATEGORY, diverging: { scheme: "blueorange" }, heatmap: { scheme: "viridis" }, ramp: { scheme: "viridis" } },
      mark: { color: CATEGORY[0] }, rule: { color: CATEGORY[0] }, geoshape: { stroke: paper, strokeWidth: 0.4 },
    };
  };

  const start = (host) => {
    const template = host.querySelector(":scope > template[shadowrootmode]");
    if (template && !host.shadowRoot) {
      host.attachShadow({ mode: "open" }).append(template.content);
      template.remove();
    }
    const root = host.shadowRoot;
    const data = host.querySelector(":scope > script[type='application/json']");
    if (!root || !data) return;
    const page = JSON.parse(data.textContent);
    const alone = host.hasAttribute("data-alone");
    const tip = root.querySelector(".tip");
    const charts = [];

    // The lines of a tooltip: those the specification lists for a row, or names and words that Vega made.
    const tipLines = (tips, datum) => tips.map(({ field, title, format }) => {
      const value = field.split(".").reduce((from, name) => (from ? from[name] : undefined), datum);
      if (typeof value !== "number" || !format) return [title, value];
      const tenths = (Math.round(1000 * value) / 10 + 0).toFixed(1);
      if (format === "points") return [title, `${tenths} points`];
      const rounded = Math.abs(value) < 1e4 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 };
      return [title, format.endsWith("%") ? `${tenths} %` : value.toLocaleString("en", rounded)];
    });
    const tooltip = (chart) => (_, event, item, value) => {
      tip.hidden = true;
      if (value === null || value === undefined || value === "") return;
      const tips = (chart.view.spec.usermeta || {}).tips;
      const lines = tips ? tipLines(tips, item.datum) : typeof value === "object" ? Object.entries(value) : [["", value]];
      const table = make("table");
      for (const [name, words] of lines) {
        if (["", null, undefined, "null", "undefined", "NaN"].includes(words)) continue;
        const line = table.insertRow();
        line.insertCell().textContent = name;
        line.insertCell().append(make("strong", String(words)));
      }
      tip.replaceChildren(table);
      tip.hidden = !table.rows.length;
      const box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
      tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
    };

    // a drawing that another has replaced may fail: what is shown now is the other one
    const current = (chart, turn, drawing) => drawing.catch((error) => { if (turn === chart.turn) throw error; });
    const draw = async (chart) => {
      const { view, section, element } = chart;
      chart.wanted = true;
      chart.turn = (chart.turn || 0) + 1;
      const turn = chart.turn;
      chart.shown = dataOf(page, section, view, chart.state);
      if (chart.result) chart.result.finalize();
      chart.result = undefined; // a list that changes meanwhile draws anew
      const spec = { ...view.spec, description: view.title, datasets: chart.shown, $schema: "https://vega.github.io/schema/vega-lite/v6.json" };
      if (!spec.autosize && spec.width === "container") spec.autosize = { type: "fit-x", contains: "padding" };
      // ast: Vega's expressions are interpreted, so that the page needs no leave to make code of text
      const options = {
        ast: true, actions: false, renderer: "svg", config: config(), tooltip: tooltip(chart), mode: "vega-lite", defaultStyle: false, logLevel: 1,
      };
      const made = await current(chart, turn, window.crosslevelVega(element, spec, options));
      if (turn !== chart.turn) return made && made.finalize();
      chart.result = made;
      element.dataset.drawn = String(turn);
    };
    // a new drawing, whatever becomes of one that is under way; a chart that waits its turn will see the new state
    const redraw = async (chart) => chart.turn && draw(chart);
    const failed = (chart) => (error) => {
      chart.element.replaceChildren(make("p", `This chart could not be drawn (${error.message}); the table below holds its numbers.`));
      console.error(error);
    };

    // ---- the state in the address: #s1.choice=value&s2.choice=value ----
    const readHash = () => {
      const wanted = new Map(location.hash.slice(1).split("&").filter((p) => p.includes("=")).map((p) => {
        const at = p.indexOf("=");
        try { return [decodeURIComponent(p.slice(0, at)), decodeURIComponent(p.slice(at + 1))]; } catch { return ["", ""]; }
      }));
      for (const { section, state, changed } of sections) {
        for (const choice of Object.values(section.choices)) {
          const asked = wanted.get(`${section.name}.${choice.name}`);
          // what an address does not name, or names wrongly, is as at the start: addresses leave that out
          const value = choice.options.some((o) => o[0] === asked) ? asked : choice.options[choice.start][0];
          if (state[choice.name] === value) continue;
          state[choice.name] = value;
          changed(choice.name);
        }
      }
    };
    const writeHash = () => {
      if (!alone) return;
      const parts = sections.flatMap(({ section, state }) => Object.values(section.choices)
        .filter((c) => state[c.name] !== c.options[c.start][0])
        .map((c) => `${encodeURIComponent(`${section.name}.${c.name}`)}=${encodeURIComponent(state[c.name])}`));
      // a page inside a sandbox has no address to write to
      try { history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search); } catch { /* none */ }
    };

    const sections = page.sections.map((section) => {
      const element = root.getElementById(section.name);
      const state = Object.fromEntries(Object.values(section.choices).map((c) => [c.name, c.options[c.start][0]]));
      const mine = section.views.map((view, k) => {
        const figure = element.querySelector(`figure[data-view="${k}"]`);
        return { view, section, state, figure, element: figure.querySelector(".chart") };
      });
      charts.push(...mine);
      const selects = [...element.querySelectorAll("select[data-choice]")];
      const follows = (chart, name) => Object.values(chart.view.data).some((source) =>
        [source.columns, source.where, ...Object.values(source.sides || {})].some((part) => part && Object.values(part).includes(name)));
      const changed = (name) => {
        for (const select of selects) if (select.dataset.choice === name) select.value = state[name];
        for (const chart of mine) if (follows(chart, name)) redraw(chart).catch(failed(chart));
      };
      for (const select of selects) {
        select.value = state[select.dataset.choice];
        select.addEventListener("change", () => {
          state[select.dataset.choice] = select.value;
          changed(select.dataset.choice);
          writeHash();
        });
      }
      for (const chart of mine) {
        chart.figure.querySelector(".save").addEventListener("click", async (event) => {
          const kind = event.target.dataset.save;
          const name = `${section.name}-${chart.view.name}.${kind}`;
          if (!kind) return;
          if (kind === "csv") return saveText(name, shownCsv(section, chart.shown || dataOf(page, section, chart.view, state)), "text/csv");
          if (!chart.result) await draw(chart);
          if (kind === "svg") return saveText(name, await chart.result.view.toSVG(), "image/svg+xml");
          save(name, await chart.result.view.toImageURL("png", 2));
        });
      }
      table(section, element);
      const views = element.querySelector(".views");
      if (views) views.hidden = false;
      return { section, state, changed };
    });

    // ---- the answer's table: sorted by a click on its heads, saved as a whole ----
    function table(section, element) {
      const shown = element.querySelector("table.answer");
      const answer = section.tables.answer;
      if (!shown || !answer) return;
      const read = answer.names.map((_, k) => reader(columnOf(section, "answer", `c${k}`)));
      const body = shown.tBodies[0];
      const lines = [...body.rows];
      const button = shown.querySelector("[data-save=answer]");
      if (button) {
        button.hidden = false;
        button.addEventListener("click", () => {
          const all = Array.from({ length: answer.n }, (_, i) => read.map((r) => r(i)));
          saveText(`${section.name}-estimates.csv`, csv(answer.names, all), "text/csv");
        });
      }
      if (lines.length < answer.n) return;
      const order = new Intl.Collator(undefined, { numeric: true });
      [...shown.tHead.rows[0].cells].forEach((head, k) => {
        const column = read[answer.names.indexOf(section.columns[k].name)];
        const sort = make("button", head.textContent);
        sort.type = "button";
        head.replaceChildren(sort);
        head.classList.add("sortable");
        sort.addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          for (const other of shown.tHead.rows[0].cells) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const compare = (i, j) => {
            const [x, y] = [column(i), column(j)];
            if (x === null || y === null) return (x === null) - (y === null);
            return (typeof x === "number" && typeof y === "number" ? x - y : order.compare(String(x), String(y))) * (down ? -1 : 1);
          };
          body.append(...lines.map((_, i) => i).sort(compare).map((i) => lines[i]));
        });
      });
    }

    for (const link of root.querySelectorAll("a[data-goto]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault(); // the address holds the choices
        const section = root.getElementById(link.dataset.goto);
        section.scrollIntoView();
        section.querySelector("h2").focus({ preventScroll: true });
      });
    }
    if (alone) {
      readHash();
      addEventListener("hashchange", readHash);
    }
    // one chart after the other, with a breath between: the first is there soonest, and lists answer meanwhile
    let line = Promise.resolve();
    const first = (chart) => {
      if (chart.wanted) return;
      chart.wanted = true;
      line = line.then(() => draw(chart)).catch(failed(chart)).then(() => new Promise((go) => setTimeout(go)));
    };
    const everything = () => charts.forEach(first);
    const watch = new IntersectionObserver((seen) => {
      for (const entry of seen) if (entry.isIntersecting) {
        watch.unobserve(entry.target);
        first(charts.find((chart) => chart.element === entry.target));
      }
    }, { rootMargin: "200px" });
    for (const chart of charts) watch.observe(chart.element);
    // what is below the fold is drawn in quiet moments, so that a print has it
    const quiet = window.requestIdleCallback || ((call) => setTimeout(call, 300));
    const rest = () => {
      const next = charts.find((chart) => !chart.wanted);
      if (!next) return;
      first(next);
      line.then(() => quiet(rest));
    };
    setTimeout(() => quiet(rest), 1500);
    const again = () => charts.filter((c) => c.wanted).forEach((c) => draw(c).catch(failed(c)));
    dark.addEventListener("change", again);
    addEventListener("beforeprint", () => {
      everything();
      for (const details of root.querySelectorAll("details")) details.open = true;
    });
    matchMedia("print").addEventListener("change", () => { if (dark.matches) again(); });
  };

  for (const host of document.querySelectorAll(".crosslevel-report:not([data-started])")) {
    host.setAttribute("data-started", "");
    start(host);
  }
})();
