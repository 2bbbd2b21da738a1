// The graph before and after the passes: a row for each operator, lines for values.
show("graph", (box, width) => {
  const rowHeight = 22;
  const rail = 9;
  const column = width < 860 ? width : (width - 28) / 2;
  const taskOf = new Map();
  tasks.forEach((task, index) => task.origin.split(", ").forEach((name) => taskOf.set(name, index)));

  // What became of a row, by the node that it came from and its operator.
  function states(nodes, others, otherwise) {
    const known = new Map();
    for (const node of others) known.set(node.name, [...(known.get(node.name) ?? []), node.op]);
    return nodes.map((node) => {
      const ops = known.get(node.name);
      if (!ops) return otherwise;
      return ops.includes(node.op) ? "same" : "changed";
    });
  }

  // A rail for each value, from its maker to its last reader.
  function rails(graph) {
    const maker = new Map();
    graph.nodes.forEach((node, row) => node.values.forEach((value) => maker.set(value, row)));
    const readers = new Map();
    graph.nodes.forEach((node, row) => node.reads.forEach((value) => {
      if (maker.has(value) && maker.get(value) < row) readers.set(value, [...(readers.get(value) ?? []), row]);
    }));
    const free = []; // per rail: the row from which on it is free
    const found = [];
    for (const [value, rows] of [...readers].sort((a, b) => maker.get(a[0]) - maker.get(b[0]))) {
      const from = maker.get(value);
      let lane = free.findIndex((until) => until <= from);
      if (lane < 0) lane = free.push(0) - 1;
      free[lane] = rows[rows.length - 1];
      found.push({ from, rows, lane });
    }
    return { found, lanes: free.length };
  }

  const style = { same: ["var(--faint)", "kept"], changed: ["var(--changed)", "changed"], gone: ["var(--gone)", "gone"], new: ["var(--new)", "new"] };
  const allRows = [];

  function draw(title, graph, state, drawnTasks) {
    const { found, lanes } = rails(graph);
    const shown = Math.min(lanes, 24);
    const start = shown * rail + 16;
    const badge = drawnTasks ? 44 : 0; // between the dot and the text
    const letters = Math.max(...graph.nodes.map((node) => node.op.length + (node.types[0] ?? "").replace(/\{.*$/, "").length), 0);
    const width = Math.max(column, start + badge + 40 + letters * 7.6);
    const height = graph.nodes.length * rowHeight + 4;
    const picture = drawing(width, height);
    const middle = (row) => row * rowHeight + rowHeight / 2;
    const rows = graph.nodes.map((node, row) => {
      const group = shape("g", { class: `row ${state[row]}` });
      group.append(shape("rect", { x: 0, y: row * rowHeight, width, height: rowHeight, fill: "transparent", class: "back" }));
      picture.append(group);
      return group;
    });
    const wires = found.map(({ from, rows: to, lane }) => {
      const x = start - 8 - (Math.min(lane, shown - 1) + 1) * rail;
      const turns = to.map((row) => `M${x},${middle(row) - 5}q0,5 5,5H${start - 5}`).join("");
      const wire = shape("path", { d: `M${start - 5},${middle(from)}H${x + 5}q-5,0 -5,5V${middle(to[to.length - 1]) - 5}${turns}`, class: "wire" });
      picture.append(wire);
      return wire;
    });
    graph.nodes.forEach((node, row) => {
      const group = rows[row];
      const [dot, word] = style[state[row]];
      group.append(shape("circle", { cx: start, cy: middle(row), r: 4, fill: dot }));
      const task = drawnTasks ? taskOf.get(node.name) : undefined;
      const label = shape("text", { x: start + 10 + badge, y: middle(row) + 4 }, node.op.replace(/\.default$/, ""));
      const type = (node.types[0] ?? "").replace(/\{.*$/, "");
      label.append(shape("tspan", { class: "soft", dx: 8, fill: "var(--soft)" }, type + (node.types.length > 1 ? ` +${node.types.length - 1}` : "")));
      group.append(label);
      if (task !== undefined) {
        group.append(shape("rect", { x: start + 10, y: middle(row) - 8, width: 38, height: 16, rx: 8, fill: color(tasks[task].kind), class: "badge" }),
          shape("text", { x: start + 29, y: middle(row) + 4, "text-anchor": "middle", style: "fill:#fff;font-size:11px" }, `t${task}`));
      }
      tipped(group, [`${node.op} → ${node.values.join(", ") || "nothing"} (${word})`, ...node.types, node.reads.length ? `reads ${node.reads.join(", ")}` : "",
        node.source, task === undefined ? "" : taskTip(task)].filter(Boolean).join("\n"));
      allRows.push({ node, row, group, graph, found, wires, rows });
    });
    return element("div", {}, element("h3", {}, `${title}: ${counted(graph.nodes.length, "operator")}`), element("div", { class: "rows" }, picture));
  }

  function follow(entry, on) {
    const set = (item, name) => item.classList.toggle(name, on);
    entry.found.forEach(({ from, rows: to }, index) => {
      if (from !== entry.row && !to.includes(entry.row)) return;
      set(entry.wires[index], "near");
      set(entry.rows[from], "near");
      if (from === entry.row) to.forEach((row) => set(entry.rows[row], "near"));
    });
    for (const other of allRows) if (other.node.name === entry.node.name) set(other.group, "here");
  }

  const before = draw("Before", facts.before, states(facts.before.nodes, facts.after.nodes, "gone"), false);
  const after = draw("After", facts.after, states(facts.after.nodes, facts.before.nodes, "new"), true);
  for (const entry of allRows) {
    entry.group.addEventListener("pointerenter", () => follow(entry, true));
    entry.group.addEventListener("pointerleave", () => follow(entry, false));
  }
  const dots = Object.values(style).map(([fill, word]) => element("span", {}, element("i", { style: `background:${fill};border-radius:5px` }), word));
  box.append(element("div", { class: "legend" }, ...dots, "t3: the task that computes it"), element("div", { class: "pair" }, before, after));
});
