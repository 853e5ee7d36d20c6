import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { newClient, newWorld } from './harness.ts'
import type { Observed } from './orphan-worker.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/client/orphan-worker.js')

describe('a lease that is renewed although nothing references it', () => {
  let observed: Readonly<Record<string, Observed>> = {}

  beforeAll(async () => {
    const run = promisify(execFile)(process.execPath, ['--expose-gc', WORKER])
    observed = JSON.parse((await run).stdout) as Readonly<Record<string, Observed>>
  })

  it.each(['dropped', 'unheard'])('is reported and renewed on: %s', (name) => {
    expect(observed[`${name} renew`]).toMatchObject({
      reported: ['client/orphan'],
      states: ['active'],
    })
    expect(observed[`${name} renew`]?.messages[0]).toMatch(
      /^LeaseError: lease \S+ of work:W is renewed on: nothing references its handle/,
    )
  })

  it.each(['dropped', 'unheard'])(
    'is reported and released where the client was opened so: %s',
    (name) => {
      expect(observed[`${name} release`]).toMatchObject({ reported: ['client/orphan'], states: [] })
      expect(observed[`${name} release`]?.messages[0]).toContain('work:W is released: nothing')
    },
  )

  it.each([
    ['its handle is kept', 'kept', 1],
    ['its signal is kept', 'signal', 1],
    ['its signal was joined to another, which is kept', 'composed', 1],
    ['it has a listener', 'listener', 1],
    ['its work is still running', 'work', 1],
    ['the set that it belongs to is kept', 'set', 2],
    ['a lease that was derived from it is kept', 'derived', 1],
    ['it was abandoned, and so is not renewed', 'abandoned', 1],
    ['its holder renews it by hand', 'manual', 1],
  ])('is not meant where %s', (_why, name, count) => {
    for (const orphans of ['renew', 'release']) {
      const { reported, states } = observed[`${name} ${orphans}`] ?? {}
      expect({ reported, states }).toEqual({ reported: [], states: Array(count).fill('active') })
    }
  })
})

describe('a lease that is asked for again by its id', () => {
  it('is the same handle', async () => {
    const { tenure } = newClient(newWorld(), 'alice')
    const lease = await tenure.acquire('work:W')
    expect(await tenure.acquire('work:W', { leaseId: lease.id })).toBe(lease)
  })
})
