"use strict";
// Headings become buttons that sort their table; without scripts the table stays as it is.
const value = (row, at) => row.cells[at].textContent.trim();
const number = text => parseFloat(text.replace("−", "-"));

function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) {
    return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
  }
  return x - y || a.localeCompare(b);
}

function sort(heading) {
  const table = heading.closest("table");
  const body = table.tBodies[0];
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const at = heading.cellIndex;
  const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(value(a, at), value(b, at)));
  body.append(...rows);
}

for (const heading of document.querySelectorAll("table.sortable thead th")) {
  if (heading.textContent.trim() === "") continue; // a button needs a name
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  button.addEventListener("click", () => sort(heading));
}

// What is folded is printed, too; but of the documents, which would fill a book, only open ones.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open], .document)")) {
    each.open = true;
    each.dataset.opened = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-opened]")) each.open = false;
});

// A plot with a specification becomes one that answers to the pointer; else its picture stays.
for (const source of document.querySelectorAll(".plot script")) {
  const box = source.parentElement;
  const picture = box.querySelector("img");
  const place = document.createElement("div");
  place.className = "chart";
  box.append(place);
  Promise.resolve()
    .then(() => vegaEmbed(place, JSON.parse(source.textContent), { actions: false, renderer: "svg" }))
    .then(() => {
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", picture.alt);
      picture.remove();
    })
    .catch(() => place.remove());
}
