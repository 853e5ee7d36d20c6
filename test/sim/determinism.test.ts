/** The same seed gives the same world, in one process and in two. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { runSeed, traceHash } from '../../sim/run-seed.ts'

const MAIN = fileURLToPath(new URL('../../dist-dev/sim/main.js', import.meta.url))

/** Runs the built simulator as a process of its own and gives back what it printed. */
async function printed(seed: number): Promise<string> {
  const args = [MAIN, '--seed', String(seed)]
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 })
  return stdout.replaceAll(/\d+ ms each/g, '')
}

describe('a seed', () => {
  it('gives the same trace twice in one process', async () => {
    for (const seed of [3, 11, 29]) {
      const first = traceHash(await runSeed(seed))
      expect(traceHash(await runSeed(seed))).toBe(first)
    }
  })

  it('gives the same trace in two processes', async () => {
    const [first, second] = await Promise.all([printed(7), printed(7)])
    expect(first).toMatch(/trace [0-9a-f]{16}/)
    expect(second).toBe(first)
  })

  it('gives another world than its neighbour', async () => {
    expect(traceHash(await runSeed(1))).not.toBe(traceHash(await runSeed(2)))
  })
})
