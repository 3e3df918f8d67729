// The head of a column is a button that sorts its table by it: numbers from the largest, texts from A; then the reverse.
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0]
  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim()
  heads.forEach((head, column) => {
    const button = document.createElement("button"), isNumber = head.className === "n"
    button.append(...head.childNodes)
    head.append(button)
    button.onclick = () => {
      const order = head.ariaSort === (isNumber ? "descending" : "ascending") ? !isNumber : isNumber
      heads.forEach(other => { other.ariaSort = null })
      head.ariaSort = order ? "descending" : "ascending"
      body.append(...[...body.rows].sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)]
        if (a === "" || b === "") return (a === "") - (b === "") // what has no value is last
        const found = isNumber ? a - b : a.localeCompare(b, "en")
        return order ? -found : found
      }))
    }
  })
}
// On paper the settings are shown; lists of files stay closed.
addEventListener("beforeprint", () => { for (const closed of document.querySelectorAll("main > details")) closed.open = true })
