/** docs/errors.md and the table in the code say the same, in both directions. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ERROR_CODES, ERROR_TABLE, LeaseError } from '../../src/core/errors.ts'

const PAGE = fs.readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')

interface Row {
  readonly code: string
  readonly summary: string
  readonly exitCode: number
  readonly httpStatus: number
  readonly retryable: boolean
  readonly effect: string
}

/** The rows of all tables whose first column is a code. */
function documented(text: string): readonly Row[] {
  const rows = text.split('\n').filter((line) => /^\| `[A-Z_]+` /.test(line))
  return rows.map((row) => {
    const [code = '', summary = '', exit, http, again, effect = ''] = row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim())
    return {
      code: code.replaceAll('`', ''),
      summary,
      exitCode: Number(exit),
      httpStatus: Number(http),
      retryable: again === 'yes',
      effect,
    }
  })
}

describe('docs/errors.md', () => {
  it.each(ERROR_CODES)('says of %s what the code says', (code) => {
    const { effect } = new LeaseError(code, '')
    const rows = documented(PAGE).filter((row) => row.code === code)
    expect(rows).toEqual([{ code, ...ERROR_TABLE[code], effect }])
  })

  it('names no code that does not exist', () => {
    const known: readonly string[] = ERROR_CODES
    const named = [...PAGE.matchAll(/`([A-Z]+(?:_[A-Z]+)+|[A-Z]{4,})`/g)].map(([, name]) => name)
    expect(named.filter((name) => name !== undefined && !known.includes(name))).toEqual([])
  })

  it.each(ERROR_CODES)('says why %s occurs and what to do about it', (code) => {
    const advice = PAGE.slice(PAGE.indexOf('What to do:')).match(/^- .*(?:\n {2}.*)*$/gm) ?? []
    const own = advice.filter((line) => line.split(': ')[0]?.includes(`\`${code}\``))
    expect(own).toHaveLength(1)
    // More than a word or two after the codes.
    expect(own[0]?.slice(own[0].indexOf(': ')).length).toBeGreaterThan(40)
  })

  it('calls no code unbuilt', () => {
    expect(PAGE).not.toMatch(/reserved|not built/)
  })
})
