// On a narrow screen rows of tables are shown below each other: each cell with the name of its column.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map(th => th.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.children].forEach((cell, number) => number && names[number] && (cell.dataset.column = names[number]))
  }
})
