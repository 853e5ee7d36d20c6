import { beforeAll, describe, expect, it } from 'vitest'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import { checkpointBytes } from '../../src/ledger/ledger-checkpoint.ts'
import { linesOf } from '../../src/ledger/sealed-ledger.ts'
import { verifyLedger, type SealedLedger } from '../../src/ledger/verify-ledger.ts'
import { compareLedgers } from '../../src/ledger/compare-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { verifier } from '../registrar/grants.ts'
import { livedWorld, wholeHistory } from './ledger-world.ts'
import { rewritten, SEAL_KEYS, sealed, SEALER } from './sealed-worlds.ts'

const EVERY = 16
/** Of each of five kinds: ten thousand in all. */
const TAMPERINGS = 2_000
let history: readonly LedgerEntry[]
let ledger: SealedLedger

beforeAll(async () => {
  const { store } = await livedWorld(11, 160)
  history = (await wholeHistory(store)).slice(0, 64)
  ledger = sealed(history, EVERY)
})

function firstDifference(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((line, index) => line !== b[index])
  return at < 0 ? a.length : at
}

type Tamper = (lines: readonly string[], random: (below: number) => number) => readonly string[]

const TAMPERINGS_BY_NAME: Readonly<Record<string, Tamper>> = {
  altered: (lines, random) => {
    const at = random(lines.length)
    const line = lines[at] ?? ''
    const place = random(line.length)
    const letter = line[place] === '7' ? '8' : '7'
    return lines.with(at, line.slice(0, place) + letter + line.slice(place + 1))
  },
  removed: (lines, random) => lines.toSpliced(random(lines.length), 1),
  reordered: (lines, random) => {
    const at = random(lines.length - 1)
    const to = at + 1 + random(lines.length - at - 1)
    return lines.with(at, lines[to] ?? '').with(to, lines[at] ?? '')
  },
  inserted: (lines, random) => {
    return lines.toSpliced(random(lines.length), 0, lines[random(lines.length)] ?? '')
  },
  truncated: (lines, random) => lines.slice(0, random(lines.length)),
}

describe('a sealed ledger', () => {
  it('is what was sealed', () => {
    expect(verifyLedger(ledger, SEAL_KEYS)).toEqual({
      ok: true,
      events: history.length,
      sealed: history.length,
      checkpoints: 4,
      realms: expect.any(Number) as number,
      keys: [SEALER.keyId],
      first: null,
    })
    expect(verifyLedger({ lines: [], checkpoints: [] }, [])).toMatchObject({ ok: true, events: 0 })
    expect(verifyLedger(sealed([], 1), SEAL_KEYS)).toMatchObject({ ok: true, checkpoints: 1 })
  })

  it.each(Object.entries(TAMPERINGS_BY_NAME))(
    `shows each of ${TAMPERINGS} random places where a line was %s`,
    (_name, tamper) => {
      const numbers = randomFrom(12)
      const random = (below: number): number => Math.floor(numbers() * below)
      const short = sealed(history.slice(0, 48), 24)
      const missed: string[] = []
      for (let round = 0; round < TAMPERINGS; round += 1) {
        const lines = tamper(short.lines, random)
        const at = firstDifference(short.lines, lines)
        const { first } = verifyLedger({ ...short, lines }, SEAL_KEYS)
        if (first?.line !== at + 1) missed.push(`line ${at + 1}, found ${first?.line}`)
      }
      expect(missed).toEqual([])
    },
  )

  it('shows a change although all numbers and hashes were written anew, at its checkpoint', () => {
    const numbers = randomFrom(13)
    const random = (below: number): number => Math.floor(numbers() * below)
    for (const [name, tamper] of Object.entries(TAMPERINGS_BY_NAME)) {
      if (name === 'altered' || name === 'truncated') continue
      for (let round = 0; round < 20; round += 1) {
        const lines = rewritten(tamper(ledger.lines, random))
        const at = firstDifference(ledger.lines, lines)
        const { first } = verifyLedger({ ...ledger, lines }, SEAL_KEYS)
        expect(Math.floor(((first?.line ?? 0) - 1) / EVERY)).toBe(Math.floor(at / EVERY))
      }
    }
    const other = (ledger.lines[20] ?? '').replace(/"atMs":\d/, '"atMs":9')
    const lines = rewritten(ledger.lines.with(20, other))
    expect(verifyLedger({ ...ledger, lines }, SEAL_KEYS).first).toEqual({
      line: 17,
      position: history[16]?.position,
      problem: 'or a later one is not what checkpoint 2 was made of',
    })
  })

  it('is not proven by a checkpoint that names another position than its last', () => {
    const [checkpoint] = ledger.checkpoints
    if (checkpoint === undefined) throw new Error('four checkpoints')
    const moved = { ...checkpoint, position: history[14]?.position ?? null }
    const signature = Buffer.from(SEALER.sign(checkpointBytes(moved))).toString('base64url')
    const odd = { ...ledger, checkpoints: [{ ...moved, signature }] }
    expect(verifyLedger(odd, SEAL_KEYS).first).toEqual({
      line: 1,
      position: history[0]?.position,
      problem: 'or a later one is not what checkpoint 1 was made of',
    })
  })

  it('is not proven by checkpoints that are missing, forged, or of a key that is not known', () => {
    const { checkpoints, lines } = ledger
    const [a, b, c, d] = checkpoints
    if (!a || !b || !c || !d) throw new Error('four checkpoints')
    for (const odd of [
      [a, c, d],
      [b, c, d],
      [a, a, b],
      [{ ...a, events: 15 }],
      [{ ...a, root: b.root }],
      [{ ...a, atMs: 7 }],
    ]) {
      expect(verifyLedger({ lines, checkpoints: odd }, SEAL_KEYS).ok).toBe(false)
    }
    expect(verifyLedger(ledger, [verifier(generateSigningKey())]).ok).toBe(false)
    const retired = SEAL_KEYS.map((key) => ({ ...key, state: 'retired', retiresAtMs: 1 }) as const)
    expect(verifyLedger(ledger, retired).ok).toBe(false)
    const since = SEAL_KEYS.map(
      (key) => ({ ...key, state: 'retired', retiresAtMs: 9_999 }) as const,
    )
    expect(verifyLedger(ledger, since).ok).toBe(true)
  })

  it('shows a line whose names cannot be read, at its place', () => {
    const line = ledger.lines[20] ?? ''
    for (const odd of [
      line.replace(/"position":"/, '"position":"\\q'),
      line.replace(/"realm":"/, '"realm":"\\u00'),
    ]) {
      const { first } = verifyLedger({ ...ledger, lines: ledger.lines.with(20, odd) }, SEAL_KEYS)
      expect(first).toMatchObject({ line: 21, problem: 'is no event' })
    }
  })

  it('asks for keys that it understands', () => {
    for (const odd of [undefined, [null], SEAL_KEYS.map((key) => ({ ...key, state: 'good' }))]) {
      const keys = odd as unknown as typeof SEAL_KEYS
      expect(() => verifyLedger(ledger, keys)).toThrow(
        expect.objectContaining({ code: 'INVALID_INPUT' }),
      )
    }
  })

  it('says how much of it no checkpoint vouches for yet', () => {
    const checkpoints = ledger.checkpoints.slice(0, 2)
    const verdict = verifyLedger({ ...ledger, checkpoints }, SEAL_KEYS)
    expect(verdict).toMatchObject({ ok: true, events: history.length, sealed: 32 })
  })

  it('has lines that end; one that does not was not written whole', () => {
    expect(linesOf('a\nb\n')).toEqual(['a', 'b'])
    expect(linesOf('a\nb')).toEqual(['a'])
    expect(linesOf('')).toEqual([])
  })
})

describe('a store', () => {
  it('that was changed behind its back differs from what was sealed, and where', () => {
    expect(compareLedgers(history, history)).toEqual({ first: null, prunedLeases: 0 })
    const at = history.findIndex(({ event }) => event.type === 'lease.issued')
    const one = history[at]
    if (one === undefined) throw new Error('no lease was issued')
    const altered = history.with(at, { ...one, event: { ...one.event, holder: 'eve' } })
    const { position } = one
    expect(compareLedgers(history, altered).first).toEqual({ position, problem: 'altered' })
    const more = history.toSpliced(at, 0, { ...one, position: '999999' })
    expect(compareLedgers(history, more).first).toMatchObject({ problem: 'inserted' })
    const last = [...history, { ...one, position: '999999' }]
    expect(compareLedgers(history, last).first).toMatchObject({ problem: 'inserted' })
    const told = new Set(history.filter(({ event }) => event.leaseId === one.event.leaseId))
    if (told.size > 1) {
      const fewer = history.toSpliced(at, 1)
      expect(compareLedgers(history, fewer).first).toEqual({ position, problem: 'removed' })
    }
  })

  it('may have pruned renewals and advances that a later one superseded, and no last one', () => {
    const one = history.find(({ event }) => event.type === 'lease.issued')
    if (one === undefined) throw new Error('no lease was issued')
    for (const type of ['lease.renewed', 'lease.advanced'] as const) {
      const more = ['1', '2', '3'].map((position) => {
        return { position: `9${position}`, event: { ...one.event, type } as LedgerEntry['event'] }
      })
      const past = [one, ...more]
      expect(compareLedgers(past, past)).toEqual({ first: null, prunedLeases: 0 })
      expect(compareLedgers(past, past.toSpliced(1, 2)).first).toBeNull()
      const cut = compareLedgers(past, past.slice(0, 3)).first
      expect(cut).toEqual({ position: '93', problem: 'removed' })
      const all = compareLedgers(past, past.slice(0, 1)).first
      expect(all).toEqual({ position: '91', problem: 'removed' })
    }
  })

  it('may have pruned a lease that has ended, with all of its history, and no other', () => {
    const ended = history.find(({ event }) => event.after === 'released')?.event.leaseId
    const live = history.findLast(({ event }) => event.after === 'active')
    const without = (leaseId: string | undefined) => {
      return history.filter(({ event }) => event.leaseId !== leaseId)
    }
    expect(compareLedgers(history, without(ended))).toEqual({ first: null, prunedLeases: 1 })
    const isLive = history.findLast(({ event }) => event.leaseId === live?.event.leaseId) === live
    if (isLive) {
      const gone = compareLedgers(history, without(live?.event.leaseId))
      expect(gone.first).toMatchObject({ problem: 'removed' })
    }
  })

  it('has not pruned what its retention still keeps, and keeps nothing where no history is kept', () => {
    const end = history.find(({ event }) => event.after === 'released')
    if (end === undefined) throw new Error('no lease was released')
    const { leaseId, atMs, resource } = end.event
    const kept = history.filter(({ event }) => event.leaseId !== leaseId)
    const first = history.find(({ event }) => event.leaseId === leaseId)
    const retention = (nowMs: number, keepsHistory = () => true) => {
      return { keepMs: 1_000, nowMs, keepsHistory }
    }
    expect(compareLedgers(history, kept, retention(atMs + 1_000)).first).toEqual({
      ...{ position: first?.position, problem: 'removed', keptUntilMs: atMs + 1_000 },
    })
    const pruned = { first: null, prunedLeases: 1 }
    expect(compareLedgers(history, kept, retention(atMs + 1_001))).toEqual(pruned)
    const asked: string[] = []
    const off = retention(atMs, (of?: string) => {
      asked.push(of ?? '')
      return false
    })
    // One that is sealed with its end had ended while history was kept, and stays as long as before.
    expect(compareLedgers(history, kept, off).first?.problem).toBe('removed')
    // A lease that was recorded, and ended while nothing was kept, has no end in the ledger.
    const begun = history.filter((entry) => entry === first)
    expect(compareLedgers(begun, [], off)).toEqual(pruned)
    expect(asked).toEqual([resource])
    // So has a request that failed: it may have been sent again.
    const failed = begun.map(({ position, event }) => {
      return { position, event: { ...event, after: 'failed' } as LedgerEntry['event'] }
    })
    expect(compareLedgers(failed, [], off)).toEqual(pruned)
    expect(compareLedgers(begun, [], retention(atMs + 9_999)).first?.problem).toBe('removed')
  })

  it('keeps what ended unnoticed as long after its end was recorded', () => {
    const one = history.find(({ event }) => event.type === 'lease.issued')
    if (one === undefined) throw new Error('no lease was issued')
    const facts = { before: 'active', after: 'expired', atMs: 5_000, terminatedAtMs: 100 } as const
    const event = { ...one.event, type: 'lease.expired', lockedUntil: null, ...facts }
    const past = [one, { position: '99', event: event as LedgerEntry['event'] }]
    const at = (nowMs: number) => ({ keepMs: 1_000, nowMs, keepsHistory: () => true })
    expect(compareLedgers(past, [], at(6_000)).first).toEqual({
      ...{ position: one.position, problem: 'removed', keptUntilMs: 6_000 },
    })
    expect(compareLedgers(past, [], at(6_001))).toEqual({ first: null, prunedLeases: 1 })
  })

  it('keeps renewals and advances as long as its retention says, superseded or not', () => {
    const one = history.find(({ event }) => event.type === 'lease.issued')
    if (one === undefined) throw new Error('no lease was issued')
    for (const type of ['lease.renewed', 'lease.advanced'] as const) {
      const more = [1, 2, 3].map((at) => {
        const event = { ...one.event, type, atMs: at * 100 } as LedgerEntry['event']
        return { position: `9${at}`, event }
      })
      const past = [one, ...more]
      const at = (nowMs: number) => ({ keepMs: 1_000, nowMs, keepsHistory: () => true })
      expect(compareLedgers(past, past.toSpliced(1, 2), at(1_201)).first).toBeNull()
      expect(compareLedgers(past, past.toSpliced(1, 2), at(1_200)).first).toEqual({
        ...{ position: '92', problem: 'removed', keptUntilMs: 1_200 },
      })
    }
  })

  describe('of which one lease', () => {
    const kinds = ['lease.issued', 'lease.renewed', 'lease.renewed', 'lease.updated']
    /** Made of the first lease that was issued: these events, one after the other, and one of another lease. */
    const past = (types: readonly string[], after = 'active'): readonly LedgerEntry[] => {
      const one = history.find(({ event }) => event.type === 'lease.issued')
      if (one === undefined) throw new Error('no lease was issued')
      const told = types.map((type, index) => {
        const event = { ...one.event, type, after } as LedgerEntry['event']
        return { position: String(index + 1), event }
      })
      return [...told, { position: '99', event: { ...one.event, leaseId: 'another' } }]
    }

    it('has ended may lack a renewal that a later one superseded, and nothing else', () => {
      const ended = past([...kinds, 'lease.updated', 'lease.released'], 'released')
      expect(compareLedgers(ended, ended.toSpliced(1, 1)).first).toBeNull()
      for (const at of [0, 3, 5]) {
        const { position } = ended[at] ?? {}
        const found = compareLedgers(ended, ended.toSpliced(at, 1))
        expect(found).toEqual({ first: { position, problem: 'removed' }, prunedLeases: 0 })
      }
    })

    it('waits cannot have been pruned', () => {
      const waiting = past(['lease.queued'], 'pending')
      expect(compareLedgers(waiting, waiting.slice(1))).toEqual({
        ...{ first: { position: '1', problem: 'removed' }, prunedLeases: 0 },
      })
    })

    it('is now told of another was altered, and not pruned', () => {
      const whole = past(['lease.issued'], 'released')
      const [one] = whole
      if (one === undefined) throw new Error('no lease was issued')
      const altered = whole.with(0, { ...one, event: { ...one.event, leaseId: 'another' } })
      expect(compareLedgers(whole, altered)).toEqual({
        ...{ first: { position: '1', problem: 'altered' }, prunedLeases: 0 },
      })
    })

    it('lacks an event shows that before what was altered later', () => {
      const whole = past(kinds)
      const last = whole.at(-1)
      if (last === undefined) throw new Error('no lease was issued')
      const altered = whole.with(-1, { ...last, event: { ...last.event, holder: 'eve' } })
      const { first } = compareLedgers(whole, altered.slice(1))
      expect(first).toEqual({ position: '1', problem: 'removed' })
    })
  })
})
