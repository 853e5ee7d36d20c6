import { describe, it } from 'vitest'
import { expectNoLostUpdates, PLACES } from './guarded-runs.ts'

describe('four processes that are paused, and revoked, now and then', () => {
  it.each(PLACES)(
    'lose no update through the guard of %s, and lose some without',
    async (kind) => {
      await expectNoLostUpdates(kind, 200)
    },
    120_000,
  )
})
