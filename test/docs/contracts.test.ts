/** docs/contracts.md names tests that exist, and every id of the registrar's design. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'

const ROOT = new URL('../../', import.meta.url)
const PAGE = fs.readFileSync(new URL('docs/contracts.md', ROOT), 'utf8')

/** Each row's last cell: a file of tests, and the name of one of them. */
const NAMED = [...PAGE.matchAll(/`(test\/[^`]+)`: (.+?) \|$/gm)].map(
  ([, file = '', title = '']) => {
    return [file, title] as const
  },
)

const IDS: readonly string[] = [
  ...['INV-0101', 'INV-0102', 'CTR-0101', 'CTR-0102', 'CTR-0201', 'CTR-0202'],
  ...['INV-0301', 'INV-0302', 'INV-0303', 'INV-0304', 'INV-0305'],
  ...['CTR-0301', 'CTR-0302', 'CTR-0303', 'CTR-0304', 'CTR-0305'],
  ...['INV-0401', 'INV-0402', 'CTR-0401', 'CTR-0402', 'CTR-0403'],
  ...['INV-0501', 'INV-0502', 'INV-0503', 'CTR-0501', 'CTR-0502', 'CTR-0503', 'CTR-0504'],
  ...['CTR-0505', 'CTR-0601', 'CTR-0602'],
]

describe('docs/contracts.md', () => {
  it('names every id of the registrar once in its table', () => {
    const told = [...PAGE.matchAll(/^\| ((?:INV|CTR)-\d{4}) \|/gm)].map(([, id]) => id)
    expect(new Set(told)).toEqual(new Set(IDS))
  })

  it('names many tests', () => {
    expect(NAMED.length).toBeGreaterThan(70)
  })

  it.each(NAMED)('%s has the test: %s', (file, title) => {
    const text = fs.readFileSync(new URL(file, ROOT), 'utf8').replaceAll(/\s+/g, ' ')
    const quoted = [`'${title}'`, `"${title}"`, `\`${title}\``]
    expect(quoted.some((name) => text.includes(`(${name}`) || text.includes(`( ${name}`))).toBe(
      true,
    )
  })
})
