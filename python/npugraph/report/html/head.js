// What bounds the model, and the numbers at the top.
{
  const { counters, memory, instances, verdict, runs, outside } = facts;
  const said = [counted(tasks.length, "task"), `captured ${counted(counters.captures, "time")}`, `run ${counted(counters.replays + counters.eager_runs, "time")}`];
  document.getElementById("subtitle").textContent = said.join(", ") + (instances.length ? `; latest sizes: ${instances[0].key || "fixed"}` : "");

  const [headline, ...rest] = verdict.sentence.split(/(?<=: )/);
  const box = document.getElementById("verdict");
  box.style.borderLeftColor = color(`bound-${verdict.bound}`);
  box.append(element("p", {}, element("b", {}, headline), rest.join("")));

  const generated = tasks.filter((task) => !["kernel", "aten", "python", "collective", "nested"].includes(task.kind));
  const run = runs[Math.floor((runs.length - 1) / 2)];
  const tile = (value, name) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, name));
  document.getElementById("head").append(
    tile(run ? timeText(run.nanoseconds) : "–", runs.length > 1 ? `one run (${timeText(runs[0].nanoseconds)} to ${timeText(runs.at(-1).nanoseconds)})` : "one run"),
    tile(`${generated.length} of ${tasks.length}`, "tasks are generated code"),
    tile(totalTime ? percent(sum(generated, (task) => task.nanoseconds), totalTime) : "–", "of the time is theirs"),
    tile(bytesText(sum(tasks, (task) => task.bytes_read + task.bytes_written)), "read and written"),
    tile(bytesText(memory.copied_bytes_per_replay), "copied per run"),
    tile(bytesText(memory.arena_bytes), `arena (at least ${bytesText(memory.lower_bound_bytes)})`),
    tile(`${facts.before.nodes.length} → ${facts.after.nodes.length}`, "operators"),
    tile(`${sum(facts.phases, ([, ms]) => ms).toFixed(0)} ms`, "to compile, beside Dynamo"));

  // A run by what bounds its parts, and what of it lies outside of tasks.
  if (run) {
    show("run", (box, width) => {
      const shortest = runs[0].nanoseconds;
      const kinds = Object.keys(facts.verdict_kinds).filter((kind) => verdict.parts[kind] >= 0.5);
      const shown = (kind) => `${facts.verdict_kinds[kind]}: ${timeText(verdict.parts[kind])}, ${percent(verdict.parts[kind], shortest)}`;
      const picture = drawing(width, 26);
      let x = 0;
      for (const kind of kinds) {
        const part = width * verdict.parts[kind] / shortest;
        picture.append(tipped(shape("rect", { x, y: 0, width: Math.max(part - 1, 0.5), height: 22, rx: 3, fill: color(`bound-${kind}`), class: "mark" }), shown(kind)));
        x += part;
      }
      const gap = [
        [outside.before, "before the first task (inputs are checked and bound)"],
        [outside.between, "between tasks"],
        [outside.after, "after the last one (results are handed out)"],
      ].map(([time, where]) => `${timeText(time)} ${where}`);
      const several = outside.tasks > 1.01 * outside.runs ? `, which add up to ${timeText(outside.tasks)} because streams run side by side` : "";
      box.append(picture, element("div", { class: "legend" },
        ...kinds.map((kind) => element("span", {}, element("i", { style: `background:${color(`bound-${kind}`)}` }), shown(kind)))),
      note(`${runs.length > 1 ? `The shortest of ${runs.length} runs, from which the rest of the machine took least,` : "The run"} took ${timeText(shortest)}: ${timeText(outside.runs)} while tasks ran${several}; ${gap.join("; ")}. `
        + "What Python and Dynamo's guards do before the call is not in it."));
    });
  } else {
    document.getElementById("run").hidden = true;
  }
}
