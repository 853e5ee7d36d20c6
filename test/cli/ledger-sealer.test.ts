import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { firstContradiction } from '../../src/cli/contradictory-events.ts'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { linesIn, LineWriter } from '../../src/delegation/ledger-files.ts'
import { LedgerSealer, type Sealing } from '../../src/cli/ledger-sealer.ts'
import { sealedEvents } from '../../src/cli/sealed-directory.ts'
import { parseResource } from '../../src/core/resource.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { openApi } from '../../src/index.ts'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import {
  EMPTY_KEY_RING,
  rotateKeys,
  withFirstKey,
  type KeyRing,
} from '../../src/registrar/key-ring.ts'
import { checkpointHash } from '../../src/ledger/ledger-checkpoint.ts'
import { entryOf, LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import type { Questions } from '../../src/service/lease-questions.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'
import { Family } from '../delegation/family.ts'
import { livedWorld, type LedgerWorld } from '../ledger/ledger-world.ts'

const RING = withFirstKey(EMPTY_KEY_RING, generateSigningKey(), 0)

function place(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-sealer-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

type Asked = Pick<Questions, 'history' | 'settingRows'>

function questionsOf({ store }: LedgerWorld): Asked {
  return {
    history: (filter) => store.history({ limit: 1_000, ...filter }),
    settingRows: () => store.settings(),
  }
}

function sealing(ring: KeyRing = RING, nowMs = 1_000): Sealing {
  return { ring: () => ring, note: async () => undefined, nowMs, copy: undefined, others: [] }
}

async function lived(world: LedgerWorld, steps: number): Promise<void> {
  for (let step = 0; step < steps; step += 1) await world.step()
}

function linesOf(directory: string, name = 'events'): readonly string[] {
  return [...linesIn(path.join(directory, `${name}.ndjson`))]
}

/** Lines that fit the chain, as anybody can write them who has no key. */
function appendForged(
  directory: string,
  forge: (last: LedgerEntry) => readonly LedgerEntry[],
): void {
  const chain = new LedgerChain()
  const lines = linesOf(directory)
  for (const line of lines) chain.accept(line)
  const last = lines.map(entryOf).findLast(({ event }) => event.type === 'lease.issued')
  if (last === undefined) throw new Error('no lease was issued')
  const forged = forge(last).map((entry) => `${chain.append(entry)}\n`)
  fs.appendFileSync(path.join(directory, 'events.ndjson'), forged.join(''))
}

function madeUp({ event }: LedgerEntry, position: string): LedgerEntry {
  return { position, event: { ...event, leaseId: '00000000-0000-4000-8000-00000000dead' } }
}

describe('whoever seals a ledger', () => {
  it.each(EVERY_STORE)('knows %s again, whoever has sealed it before', async (name) => {
    const directory = place()
    const url = await freshStoreOf(name)
    const api = await openApi(url)
    onTestFinished(() => api.close())
    for (const round of [1, 2, 3]) {
      const leaseId = `00000000-0000-4000-8000-00000000000${round}`
      const resource = parseResource(`work:${round}`)
      const request = { id: leaseId, resource, holder: 'ada', session: 'ada', waitMs: 0 } as const
      const limits = { scope: { tools: ['edit'], namespaces: ['src'] }, budget: { tokens: 9 } }
      await api.acquire({ ...request, ...limits, ttlMs: 60_000 })
      await api.spend({ id: leaseId, holder: 'ada', amounts: { tokens: 1 } })
      const { events } = await new LedgerSealer(api, directory).seal(sealing())
      expect(events).toBe(round * 2)
    }
    await api.release({ id: '00000000-0000-4000-8000-000000000001', holder: 'ada' })
    await api.revoke({ id: '00000000-0000-4000-8000-000000000002', by: 'bob' })
    await new LedgerSealer(api, directory).seal(sealing())
    const last = await api.history({ limit: 100 })
    expect(sealedEvents(directory)).toEqual(last.map(({ event }) => event))
    expect(await firstOddLease(api)).toBeNull()
  })

  it('does not sign lines that the store does not have, whatever they tell', async () => {
    for (const forge of [
      (last: LedgerEntry) => [madeUp(last, '999999')],
      // A lease that has ended and is not in the store is not taken for one that was pruned.
      (last: LedgerEntry) => {
        const { position, event } = madeUp(last, '999998')
        const over = { ...event, type: 'lease.expired', after: 'expired' } as LedgerEntry['event']
        return [
          { position, event },
          { position: '999999', event: over },
        ]
      },
    ]) {
      const directory = place()
      const world = await livedWorld(11, 40)
      const { events } = await new LedgerSealer(questionsOf(world), directory).seal(sealing())
      appendForged(directory, forge)
      await lived(world, 20)
      const again = new LedgerSealer(questionsOf(world), directory).seal(sealing())
      await expect(again).rejects.toMatchObject({
        code: 'DECODE_ERROR',
        message: expect.stringContaining(`line ${events + 1} that is not what the store has`),
      })
      expect(linesOf(directory, 'checkpoints')).toHaveLength(1)
    }
  })

  it('goes on with lines that one which died has left, if the store has them', async () => {
    const directory = place()
    const world = await livedWorld(11, 40)
    const sealer = new LedgerSealer(questionsOf(world), directory)
    await sealer.seal(sealing())
    await lived(world, 20)
    await sealer.seal(sealing())
    const file = path.join(directory, 'checkpoints.ndjson')
    fs.writeFileSync(file, `${linesOf(directory, 'checkpoints')[0]}\n`)
    await lived(world, 20)
    const { events } = await new LedgerSealer(questionsOf(world), directory).seal(sealing())
    const history = await world.store.history({ limit: 1_000 })
    expect(events).toBe(history.length)
    expect(sealedEvents(directory)).toEqual(history.map(({ event }) => event))
  })

  it('does not go on with the ledger of a store that was lost and made anew', async () => {
    const directory = place()
    const worlds = [await livedWorld(11, 60), await livedWorld(12, 30)] as const
    const questions = worlds.map(questionsOf)
    const current = { at: 0 }
    const asked: Asked = {
      settingRows: async () => [],
      history: async (filter) => questions[current.at]?.history(filter) ?? [],
    }
    const sealer = new LedgerSealer(asked, directory)
    await sealer.seal(sealing())
    current.at = 1
    const refused = { code: 'DECODE_ERROR', message: expect.stringContaining('the store must be') }
    await expect(sealer.seal(sealing())).rejects.toMatchObject(refused)
    const other = new LedgerSealer(asked, directory).seal(sealing())
    await expect(other).rejects.toMatchObject(refused)
    current.at = 0
    // One that has only read the ledger knows the store again, too.
    const reader = new LedgerSealer(asked, directory)
    await reader.seal(sealing())
    current.at = 1
    await expect(reader.seal(sealing())).rejects.toMatchObject(refused)
  })

  it('looks twice before it calls missing what was pruned while it looked', async () => {
    const directory = place()
    const world = await livedWorld(11, 60)
    const questions = questionsOf(world)
    await new LedgerSealer(questions, directory).seal(sealing())
    const lost = (await questions.history({})).find(({ event }) => event.type === 'lease.issued')
    for (const [timesMissing, isRefused] of [
      [1, false],
      [2, true],
    ] as const) {
      let times = timesMissing
      const asked: Asked = {
        ...questions,
        history: async (filter) => {
          const entries = await questions.history(filter)
          const isWhole = filter.after === undefined && times > 0
          if (isWhole) times -= 1
          return isWhole ? entries.filter(({ position }) => position !== lost?.position) : entries
        },
      }
      const sealed = new LedgerSealer(asked, directory).seal(sealing())
      await (isRefused ? expect(sealed).rejects.toThrow('was removed') : sealed)
    }
  })

  it('does not sign with a key that the ledger knows to have been followed', async () => {
    const directory = place()
    const world = await livedWorld(11, 20)
    const sealer = new LedgerSealer(questionsOf(world), directory)
    const lastCheckpoints = [checkpointHash(await sealer.seal(sealing()))]
    const next = generateSigningKey()
    const rotated = rotateKeys(RING, { next, nowMs: 2_000, overlapMs: 9_000, lastCheckpoints })
    await sealer.seal(sealing(rotated, 3_000))
    await expect(sealer.seal(sealing(RING, 4_000))).rejects.toMatchObject({
      code: 'INVALID_SIGNATURE',
      message: expect.stringContaining('has named its successor'),
    })
    expect(linesOf(directory, 'checkpoints')).toHaveLength(2)
  })

  it('writes nothing when the copy cannot be written', async () => {
    const directory = place()
    const world = await livedWorld(11, 20)
    const copy = path.join(directory, 'missing', 'copy.ndjson')
    const sealed = new LedgerSealer(questionsOf(world), directory).seal({ ...sealing(), copy })
    await expect(sealed).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(fs.readdirSync(directory)).toEqual([])
  })
})

describe('the leases that a store keeps', () => {
  it('are those that its events tell of, whatever has happened to them', async () => {
    for (const seed of [11, 12, 13]) {
      const world = await livedWorld(seed, 0)
      for (let step = 0; step < 200; step += 1) {
        await world.step()
        if (step % 20 === 0) expect(await firstOddLease(world.api)).toBeNull()
      }
      expect(await world.store.history({ limit: 1 })).toHaveLength(1)
    }
  })

  it('are odd where a live one is another, or none at all', async () => {
    const world = await livedWorld(11, 60)
    const { leases } = await world.api.list({})
    const [one] = leases
    if (one === undefined) throw new Error('nothing is live')
    const asked = (change: (lease: LeaseInfo) => LeaseInfo | null) => {
      const changed = (lease: LeaseInfo | null) => (lease?.id === one.id ? change(lease) : lease)
      return firstOddLease({
        history: (filter) => world.api.history(filter),
        settings: (resource) => world.api.settings(resource),
        get: async (leaseId) => changed(await world.api.get(leaseId)),
        list: async (filter) => {
          const { leases: kept, ...more } = await world.api.list(filter)
          return { ...more, leases: kept.map(changed).filter((lease) => lease !== null) }
        },
      })
    }
    expect(await asked((lease) => lease)).toBeNull()
    expect(await asked((lease) => ({ ...lease, holder: 'mallory' }))).toBe(one.id)
    expect(await asked((lease) => ({ ...lease, mode: 'shared', session: 'x' }))).toBe(one.id)
    expect(await asked(() => null)).toBe(one.id)
  })

  it('are odd where one that is held is kept as ended, or the other way round', async () => {
    const world = new Family()
    const [held, ended] = [await world.root('work:a'), await world.root('work:b')]
    await world.release(ended)
    const kept = async (id: string, state: LeaseInfo['state']) => {
      const changed = (lease: LeaseInfo): LeaseInfo =>
        lease.id === id ? { ...lease, state } : lease
      return firstOddLease({
        history: (filter) => world.api.history(filter),
        settings: (resource) => world.api.settings(resource),
        get: async (leaseId) => {
          const lease = await world.api.get(leaseId)
          return lease === null ? null : changed(lease)
        },
        list: async (filter) => {
          const { leases, ...more } = await world.api.list(filter)
          const isListed = ({ state: now }: LeaseInfo): boolean => {
            return now === (filter.state ?? now)
          }
          return { ...more, leases: leases.map(changed).filter(isListed) }
        },
      })
    }
    expect(await kept(held.id, 'active')).toBeNull()
    expect(await kept(held.id, 'released')).toBe(held.id)
    expect(await kept(held.id, 'expired')).toBe(held.id)
    expect(await kept(held.id, 'revoked')).toBe(held.id)
    expect(await kept(ended.id, 'active')).toBe(ended.id)
    expect(await kept(ended.id, 'expired')).toBe(ended.id)
  })
})

it('a lease without events is no odd one where no history is kept', async () => {
  const url = 'memory:no-history'
  const api = await openApi(url)
  onTestFinished(() => api.close())
  const who = { holder: 'ada', session: 'ada', waitMs: 0, ttlMs: 60_000 }
  const resource = parseResource('work:quiet')
  await api.configure({ key: 'keep_history', value: 'false', scope: 'global', resourceId: null })
  await api.acquire({ id: '00000000-0000-4000-8000-000000000001', resource, ...who })
  expect(await api.history({ limit: 1 })).toEqual([])
  expect(await firstOddLease(api)).toBeNull()
  await api.configure({ key: 'keep_history', value: 'true', scope: 'global', resourceId: null })
  expect(await firstOddLease(api)).toBe('00000000-0000-4000-8000-000000000001')
})

describe('the events of a store', () => {
  it('do not contradict each other where the history was off for a while', async () => {
    const api = await openApi('memory:history-off-and-on')
    onTestFinished(() => api.close())
    const resource = parseResource('work:w')
    const held = async (number: number, holder: string): Promise<void> => {
      const leaseId = `00000000-0000-4000-8000-00000000000${number}`
      const wish = { id: leaseId, resource, holder, session: holder, waitMs: 0, ttlMs: 60_000 }
      expect((await api.acquire(wish)).kind).toBe('granted')
    }
    const ended = (number: number, holder: string) => {
      return api.release({ id: `00000000-0000-4000-8000-00000000000${number}`, holder })
    }
    const keep = (value: string) => {
      return api.configure({ key: 'keep_history', value, scope: 'global', resourceId: null })
    }
    await held(1, 'ada')
    await keep('false')
    await ended(1, 'ada')
    await held(2, 'bob')
    await keep('true')
    await ended(2, 'bob')
    await held(3, 'cyd')
    expect(await api.history({ limit: 100 })).not.toEqual([])
    expect(await firstContradiction(api)).toBeNull()
  })

  it('do not contradict each other where the end of a lease is pruned while they are read', async () => {
    const world = new Family()
    await world.release(await world.root('work:a'))
    await world.root('work:a')
    const ends = (await world.api.history({ limit: 100 })).find(
      ({ event }) => event.type === 'lease.released',
    )
    const asked = (times: number) => {
      let left = times
      return firstContradiction({
        history: async (filter) => {
          const told = await world.api.history(filter)
          if (told.length === 0 || left === 0) return told
          left -= 1
          return told.filter(({ position }) => position !== ends?.position)
        },
      })
    }
    expect(await asked(1)).toBeNull()
    expect(await asked(9)).toMatchObject({ problem: expect.stringContaining('work:a is held') })
  })
})

describe('the lines of a file', () => {
  it('are the same however they lie in the pieces that are read', () => {
    const file = path.join(place(), 'lines')
    const lines = Array.from({ length: 900 }, (_, index) => `${index} ${'ä€😀'.repeat(400)}`)
    const writer = new LineWriter(file, '0')
    for (const line of lines) writer.append(line)
    writer.sync()
    writer.close()
    expect(fs.statSync(file).size).toBeGreaterThan(3 * 1_048_576)
    expect([...linesIn(file)]).toEqual(lines)
  })

  it('are without what a writer that died has left of the last, however much that is', () => {
    const file = path.join(place(), 'lines')
    for (const [before, kept] of [
      ['a\nb\n', ['a', 'b']],
      ['a\n', ['a']],
      ['', []],
    ] as const) {
      fs.writeFileSync(file, `${before}${'x'.repeat(3_000_000)}`)
      expect([...linesIn(file)]).toEqual(kept)
      const writer = new LineWriter(file, 'xx')
      writer.append('next')
      writer.sync()
      writer.close()
      expect([...linesIn(file)]).toEqual([...kept, 'next'])
    }
    expect([...linesIn(path.join(place(), 'none'))]).toEqual([])
  })

  it('are refused where one is longer than any event', () => {
    const file = path.join(place(), 'lines')
    fs.writeFileSync(file, Buffer.alloc(18 * 1_048_576, 'x'))
    expect(() => [...linesIn(file)]).toThrow(/longer than any event/)
  })
})
