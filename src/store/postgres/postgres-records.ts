/** Rows as PostgreSQL reads them in text: `(1,,"two words")`, and arrays of such rows. */

export type RecordValue = string | number | boolean | null

/** Written without quotes in a row. */
const PLAIN_WORD = /^[\w:./@+-]+$/
const NEEDS_ESCAPE = /["\\]/g

/** One row, as an element of an array. */
export function recordText(values: readonly RecordValue[]): string {
  let text = '('
  let isQuoted = false
  let isFirst = true
  for (const value of values) {
    if (!isFirst) text += ','
    isFirst = false
    if (value === null) continue
    if (typeof value !== 'string' || PLAIN_WORD.test(value)) text += String(value)
    else {
      isQuoted = true
      text += `"${value.replaceAll(NEEDS_ESCAPE, '\\$&')}"`
    }
  }
  const whole = `${text})`
  return `"${isQuoted ? whole.replaceAll(NEEDS_ESCAPE, '\\$&') : whole}"`
}

/** An array of rows that `recordText` has written. */
export function recordsText(records: readonly string[]): string {
  return `{${records.join()}}`
}
