// The numbers at the top.
{
  const { counters, memory, instances } = facts;
  const runs = [counted(tasks.length, "task"), `captured ${counted(counters.captures, "time")}`, `run ${counted(counters.replays + counters.eager_runs, "time")}`];
  document.getElementById("subtitle").textContent = runs.join(", ") + (instances.length ? `; latest sizes: ${instances[0].key || "fixed"}` : "");
  const generated = tasks.filter((task) => !["kernel", "aten", "python", "collective"].includes(task.kind));
  const end = tasks.reduce((latest, task) => Math.max(latest, task.begin_nanoseconds + task.nanoseconds), 0);
  const tile = (value, name) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, name));
  document.getElementById("head").append(
    tile(end ? timeText(end) : "–", "one run"),
    tile(`${generated.length} of ${tasks.length}`, "tasks are generated code"),
    tile(totalTime ? percent(sum(generated, (task) => task.nanoseconds), totalTime) : "–", "of the time is theirs"),
    tile(bytesText(sum(tasks, (task) => task.bytes_read + task.bytes_written)), "read and written"),
    tile(bytesText(memory.copied_bytes_per_replay), "copied per run"),
    tile(bytesText(memory.arena_bytes), `arena (at least ${bytesText(memory.lower_bound_bytes)})`),
    tile(`${facts.before.nodes.length} → ${facts.after.nodes.length}`, "operators"),
    tile(`${sum(facts.phases, ([, ms]) => ms).toFixed(0)} ms`, "to compile, beside Dynamo"));
}
