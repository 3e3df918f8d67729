// On a narrow screen rows of tables are shown below each other: each cell with the name of its column.
// Long names in cells may break after the marks in them.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map(th => th.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.children].forEach((cell, number) => number && names[number] && (cell.dataset.column = names[number]))
  }
  for (const code of document.querySelectorAll(".md-typeset :is(th, td) code"))
    if (!code.childElementCount && (code.textContent.length > 24 || code.closest("td + td"))) code.replaceChildren(...code.textContent.split(/(?<=[_./:=-])(?=\w)/).flatMap(part => [document.createElement("wbr"), part]))
})
