import { describe, expect, it } from 'vitest'
import { faultLine } from '../../src/cli/report-error.ts'
import { LeaseError } from '../../src/core/errors.ts'

describe('the line that --debug prints of a fault', () => {
  it.each([
    ['what failed and why', new Error('connection lost'), 1, 'connection lost'],
    ['the code of an error', new LeaseError('CLOSED', 'gone'), 1, 'gone (CLOSED)'],
    ['no code twice', Object.assign(new Error('EIO: read'), { code: 'EIO' }), 1, 'EIO: read'],
    ['an error without a message', Object.assign(new Error(''), { code: 'E_X' }), 1, 'E_X'],
    ['what is no error', 'why', 1, 'why'],
    ['how often it has failed', new Error('away'), 61, 'away, 61 times in a row'],
  ])('says %s', (_what, error, count, said) => {
    expect(faultLine({ source: 'client/renewal', error, count })).toBe(
      `tenure: client/renewal: ${said}`,
    )
  })

  it('is one line, and cannot move the cursor', () => {
    const error = new Error('first\nsecond \u001b[2J')
    expect(faultLine({ source: 'store/wake', error, count: 1 })).toBe(
      'tenure: store/wake: first\\u000asecond \\u001b[2J',
    )
  })
})
