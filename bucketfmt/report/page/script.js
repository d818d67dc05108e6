"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const NONE = "–";
  document.documentElement.classList.add("js");

  const countText = (number) => number.toLocaleString("en-US");
  const sizeText = (size) => {
    for (const unit of ["B", "KiB", "MiB", "GiB"]) {
      if (Math.abs(size) < 1024) return `${size.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
      size /= 1024;
    }
    return `${size.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} TiB`;
  };
  const SHOW = { size: sizeText, count: countText, ratio: (ratio) => ratio.toFixed(2), id: String, text: String };
  const textOf = (column, row) => {
    const value = column.values[row];
    if (value === null) return NONE;
    return column.kind === "name" ? column.names[value] : SHOW[column.kind](value);
  };
  const isNumber = (column) => column.kind in { id: 0, size: 0, count: 0, ratio: 0 };
  const make = (tag, attributes, ...inner) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inner);
    return made;
  };

  function barsSvg([number, , base, logs]) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `-.5 0 ${number} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    for (const [kind, d] of [["base", base], ["logs", logs]]) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", kind);
      path.setAttribute("d", d);
      svg.append(path);
    }
    return svg;
  }

  /* Sort, filter and turn the pages of a table. */
  function setUpSheet(place) {
    const sheet = data.sheets[place.dataset.sheet];
    const { columns, page } = sheet;
    const number = columns[0].values.length;
    const body = place.querySelector("tbody");
    const [previous, next] = place.querySelectorAll(".pager button");
    const input = place.querySelector("input");
    const heads = [...place.querySelectorAll("thead th")];
    let by = sheet.sortedBy;
    let isDown = true;
    let begin = 0;
    let order = null;
    let haystack = null;

    function keysOf(column) {
      if (column.kind !== "name") return column.values;
      const sorted = column.names.map((_, at) => at).sort((a, b) => (column.names[a] < column.names[b] ? -1 : 1));
      const rank = [];
      sorted.forEach((at, place) => { rank[at] = place; });
      return column.values.map((value) => (value === null ? null : rank[value]));
    }
    function matches() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = Array.from({ length: number }, (_, row) => row);
      if (!words.length) return rows;
      if (haystack === null) {
        const named = columns.filter((column) => column.kind === "name" || column.kind === "text");
        haystack = rows.map((row) => named.map((column) => textOf(column, row)).join("\n").toLowerCase());
      }
      return rows.filter((row) => words.every((word) => haystack[row].includes(word)));
    }
    function sort() {
      const keys = keysOf(columns[by]);
      const sign = isDown ? -1 : 1;
      order = matches().sort((a, b) => {
        const x = keys[a], y = keys[b];
        if (x === y) return a - b;
        if (x === null) return 1;
        if (y === null) return -1;
        return x < y ? -sign : sign;
      });
    }
    function cell(column, row, at) {
      if (column.kind === "bars") {
        const name = textOf(columns[0], row);
        const attributes = { type: "button", class: "bars", "data-row": row, "aria-label": `Show the buckets of ${name}` };
        return make("td", {}, make("button", attributes, barsSvg(column.values[row])));
      }
      const text = make("bdi", {}, textOf(column, row));
      if (at === 0) return make("th", { scope: "row" }, text);
      return make("td", isNumber(column) ? { class: "number" } : {}, text);
    }
    function tell() {
      const end = Math.min(begin + page, order ? order.length : number);
      const all = order ? order.length : number;
      const range = all ? `${countText(begin + 1)} to ${countText(end)} of ` : "";
      const of = all === number ? "" : ` that match, of ${countText(number)}`;
      place.querySelector(".status").textContent = `${range}${countText(all)} ${sheet.rows}${of}`;
      previous.disabled = begin === 0;
      next.disabled = end >= all;
    }
    function show() {
      const rows = order.slice(begin, begin + page);
      body.replaceChildren(...rows.map((row) => make("tr", {}, ...columns.map((column, at) => cell(column, row, at)))));
      tell();
    }
    function turn(step) {
      if (order === null) sort();
      begin = Math.max(0, begin + step * page);
      show();
    }
    heads.forEach((head, at) => {
      if (columns[at].kind === "bars") return;
      const button = make("button", { type: "button" }, head.textContent);
      button.addEventListener("click", () => {
        isDown = by === at ? !isDown : isNumber(columns[at]);
        by = at;
        begin = 0;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        sort();
        show();
      });
      head.replaceChildren(button);
    });
    input.addEventListener("input", () => { begin = 0; sort(); show(); });
    previous.addEventListener("click", () => turn(-1));
    next.addEventListener("click", () => turn(1));
    tell();
  }

  /* The large bars show the partition that was chosen. */
  function showBars(partition) {
    const [names, bars] = data.sheets.partitions.columns;
    const [number, each, , , largest] = bars.values[partition];
    const figure = document.getElementById("bars");
    figure.querySelector("figcaption bdi").textContent = textOf(names, partition);
    figure.querySelector(".top").textContent = sizeText(largest);
    figure.querySelector("svg").replaceWith(barsSvg(bars.values[partition]));
    const one = each === 1 ? "bucket" : `${each} buckets, the largest of them`;
    figure.querySelector(".text").textContent =
      `${countText(number)} bars, one for each ${one}; the highest is ${sizeText(largest)}.`;
  }

  /* A cursor in the heat map, moved by a pointer or by keys. */
  function setUpHeatMap(figure) {
    const { columns, lines, partitions } = data.heat;
    const groups = data.sheets["file-groups"].columns;
    const [names, bucket, , size, , rows, logFiles, logs] = groups;
    const cells = figure.querySelector(".cells");
    const svg = cells.querySelector("svg");
    const cursor = svg.querySelector(".cursor");
    const told = figure.querySelector(".cell");
    let grid = null;
    let x = 0, y = 0;

    /* Rows of file groups, by cell; file groups of one bucket share a cell. */
    function place() {
      const of = new Map(partitions.map((partition) => [partition, []]));
      let before = null;
      names.values.forEach((partition, row) => {
        const own = of.get(partition);
        if (!own) return;
        const id = bucket.values[row];
        if (id !== null && own.length && before === id) own[own.length - 1].push(row);
        else own.push([row]);
        before = id;
      });
      grid = [];
      for (const partition of partitions) {
        const own = of.get(partition);
        for (let at = 0; at < own.length; at += columns) grid.push(own.slice(at, at + columns));
      }
    }
    function describe(found) {
      const sum = (column) => found.reduce((all, row) => all + (column.values[row] || 0), 0);
      const [row] = found;
      const id = bucket.values[row];
      const untold = found.some((each) => groups[4].values[each] !== null && rows.values[each] === null);
      const parts = [
        textOf(names, row) + (id === null ? "" : `, bucket ${id}`), sizeText(sum(size)),
        untold ? "rows not recorded" : `${countText(sum(rows))} rows in base files`,
        `${countText(sum(logFiles))} log files (${sizeText(sum(logs))})`,
      ];
      if (found.length > 1) parts.push(`${found.length} file groups`);
      return parts.join(" · ");
    }
    function move(column, line) {
      if (grid === null) place();
      if (!grid.length) return;
      y = Math.min(Math.max(line, 0), lines - 1);
      x = Math.min(Math.max(column, 0), grid[y].length - 1);
      cursor.setAttribute("x", x);
      cursor.setAttribute("y", y);
      told.textContent = describe(grid[y][x]);
    }
    const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-columns, 0], End: [columns, 0] };
    const choose = () => { if (grid && grid.length) showBars(names.values[grid[y][x][0]]); };
    cells.addEventListener("keydown", (event) => {
      if (event.key in STEPS) move(x + STEPS[event.key][0], y + STEPS[event.key][1]);
      else if (event.key === "Enter") choose();
      else return;
      event.preventDefault();
    });
    cells.addEventListener("focus", () => move(x, y));
    const point = (event) => {
      const box = svg.getBoundingClientRect();
      move(Math.floor(((event.clientX - box.left) / box.width) * columns), Math.floor(((event.clientY - box.top) / box.height) * lines));
    };
    svg.addEventListener("pointermove", point);
    svg.addEventListener("click", (event) => { point(event); choose(); });
  }

  function setUpFindings(tools) {
    const findings = [...document.querySelectorAll(".finding")];
    const input = tools.querySelector("input[type=search]");
    const status = tools.querySelector(".status");
    function filter() {
      const wanted = new Set([...tools.querySelectorAll("input:checked")].map((box) => box.value));
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const finding of findings) {
        const text = finding.textContent.toLowerCase();
        finding.hidden = !wanted.has(finding.dataset.severity) || !words.every((word) => text.includes(word));
      }
      const shown = findings.filter((finding) => !finding.hidden).length;
      status.textContent = `${shown} of ${findings.length} findings`;
    }
    tools.addEventListener("input", filter);
    filter();
  }

  document.querySelectorAll(".sheet").forEach(setUpSheet);
  document.querySelectorAll(".heat").forEach(setUpHeatMap);
  document.querySelectorAll("#finding-tools").forEach(setUpFindings);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.bars");
    if (!button) return;
    showBars(Number(button.dataset.row));
    document.getElementById("bars").scrollIntoView({ block: "nearest" });
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
})();
