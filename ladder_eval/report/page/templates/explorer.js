"use strict";
// Filters of the documents. Without scripts all documents are there, and the filters aren't.
(() => {
  const form = document.getElementById("explorer-filters");
  if (!form) return;
  const count = document.getElementById("explorer-count");
  const shown = [...document.querySelectorAll("#explorer-documents > details")];
  const texts = new Map(shown.map(each => [each, each.textContent.toLowerCase()]));
  const answers = [...document.querySelectorAll("#explorer-documents [data-candidate]")];
  const wanted = name => form.elements[name]?.value ?? "";

  // Whether a list of candidates' numbers has the wanted one, or any where none is wanted.
  const has = (numbers, candidate) =>
    candidate === "" ? numbers.trim() !== "" : numbers.split(" ").includes(candidate);

  const changed = (each, change, candidate) =>
    change === "" ||
    (change !== "losses" && has(each.dataset.gains, candidate)) ||
    (change !== "gains" && has(each.dataset.losses, candidate));

  const fits = each =>
    ["run", "task"].every(name => wanted(name) === "" || each.dataset[name] === wanted(name)) &&
    changed(each, wanted("change"), wanted("candidate")) &&
    texts.get(each).includes(wanted("text").trim().toLowerCase());

  const update = () => {
    const candidate = wanted("candidate");
    for (const each of answers)
      each.hidden = candidate !== "" && each.dataset.candidate !== candidate;
    for (const each of shown) each.hidden = !fits(each);
    const left = shown.filter(each => !each.hidden).length;
    count.textContent = `${left} of ${shown.length} documents shown`;
  };

  const openAll = open => {
    for (const each of shown) if (!each.hidden) each.open = open;
  };

  form.addEventListener("submit", event => event.preventDefault());
  for (const event of ["input", "change"]) form.addEventListener(event, update);
  form.addEventListener("reset", () => setTimeout(update));
  form.elements.open.addEventListener("click", () => openAll(true));
  form.elements.close.addEventListener("click", () => openAll(false));
  form.hidden = false;
  update();
})();
