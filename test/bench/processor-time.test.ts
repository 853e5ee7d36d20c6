import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import {
  allocatedBytes,
  ownProcessorUs,
  PARTS,
  processorUsOf,
  sharesOf,
} from '../../bench/measure/processor-time.ts'
import { parseResource } from '../../src/core/resource.ts'

/** Several times what Node takes to start. */
const BUSY_MS = 600

describe('processor time', () => {
  it('of other processes is what they spent, not what they waited', async () => {
    const spin = `const end = process.cpuUsage().user + ${BUSY_MS}e3; while (process.cpuUsage().user < end);`
    const wait = 'setInterval(() => {}, 1000); console.log()'
    const [busy, lazy] = [spin + wait, wait].map((text) => spawn(process.execPath, ['-e', text]))
    try {
      await Promise.all([busy, lazy].map((child) => once(child?.stdout ?? process, 'data')))
      const [busyUs = 0, lazyUs = 0] = [busy, lazy].map((child) => processorUsOf([child?.pid ?? 0]))
      // Both waited for the other; what Node takes to start, both have taken.
      expect((busyUs ?? 0) - (lazyUs ?? 0)).toBeGreaterThan((BUSY_MS * 1_000) / 3)
    } finally {
      for (const child of [busy, lazy]) child?.kill('SIGKILL')
    }
  })

  it('of a process that is gone is not told', () => {
    expect(processorUsOf([2 ** 22 + 1])).toBeNull()
  })

  it('is put down to the part of the program that spent it', async () => {
    const shares = await sharesOf(async () => {
      // By its own time, not by the clock: most of the clock's may be another process's.
      const endUs = ownProcessorUs() + 2 * BUSY_MS * 1_000
      while (ownProcessorUs() < endUs) {
        for (let n = 0; n < 1_000; n += 1) parseResource('file:/a/b/../c/./d/e/f')
      }
    })
    expect(shares.core).toBeGreaterThan(0.3)
    expect(shares.driver).toBe(0)
    expect(PARTS.reduce((sum, part) => sum + shares[part], 0)).toBeCloseTo(1)
  })
})

describe('what a piece of work allocates', () => {
  it('counts garbage as well, and grows with the work', async () => {
    const of = (count: number): Promise<number> =>
      allocatedBytes(async () => {
        for (let n = 0; n < count; n += 1) await Promise.resolve(new Array<number>(1_000).fill(n))
      })
    const [small, large] = [await of(500), await of(5_000)]
    expect(small).toBeGreaterThan(500 * 4_000)
    expect(large / small).toBeGreaterThan(5)
  })
})
