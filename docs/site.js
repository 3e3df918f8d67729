// On a narrow screen rows of tables are shown below each other: each cell with the name of its column.
// Short names, options and cells stay on one line; long ones in cells may break after the marks in them.
document$.subscribe(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map(th => th.textContent.trim())
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.children].forEach((cell, number) => number && names[number] && (cell.dataset.column = names[number]))
  }
  for (const cell of document.querySelectorAll(".md-typeset td")) cell.classList.toggle("whole", cell.textContent.trim().length <= 12)
  for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
    const name = code.textContent, cell = code.closest("th, td")
    code.classList.toggle("whole", name.length <= (cell ? 16 : 30))
    if (cell && name.length > (cell.cellIndex ? 16 : 24) && !code.childElementCount)
      code.replaceChildren(...name.split(/(?<=[_./:=-])(?=\w)/).flatMap(part => [document.createElement("wbr"), part]))
  }
})
