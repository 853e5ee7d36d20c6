import { describe, expect, it } from 'vitest'
import { requireText, utf8Length } from '../../src/core/input.ts'
import { fc } from '../fast-check.ts'

const well = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed())

describe('text', () => {
  it('is measured in the bytes that a store will write', () => {
    fc.assert(fc.property(well, (text) => utf8Length(text) === Buffer.byteLength(text, 'utf8')))
  })

  it('is refused exactly when it has a control character or is not well formed', () => {
    const anything = fc.string({ unit: 'binary' })
    const broken = fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => {
      return String.fromCharCode(...units)
    })
    fc.assert(
      fc.property(fc.oneof(anything, broken), (text) => {
        const bad = !text.isWellFormed() || /\p{Cc}/u.test(text)
        if (bad) expect(() => requireText('holder', text)).toThrow(/^holder must not contain/)
        else expect(requireText('holder', text)).toBe(text)
      }),
      { numRuns: 500 },
    )
  })
})
