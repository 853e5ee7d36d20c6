import { hash } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, type SigningKey } from '../../src/registrar/ed25519.ts'
import {
  EMPTY_KEY_RING,
  importKeys,
  rotateKeys,
  signingKeyOf,
  withFirstKey,
  type KeyRing,
} from '../../src/registrar/key-ring.ts'
import {
  checkpointBytes,
  checkpointHash,
  sealChain,
  type LedgerCheckpoint,
} from '../../src/ledger/ledger-checkpoint.ts'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { rotationsToRecord } from '../../src/ledger/recorded-rotation.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { verifyLedger } from '../../src/ledger/verify-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { verifier } from '../registrar/grants.ts'
import { livedWorld, wholeHistory } from './ledger-world.ts'

const FIRST = generateSigningKey()
const OVERLAP_MS = 1_000
let history: readonly LedgerEntry[]

beforeAll(async () => {
  const { store } = await livedWorld(11, 60)
  history = await wholeHistory(store)
})

/** Seals a few events at a time, with a rotation before every seal but the first. */
function rotating(rounds: number, sign = signingKeyOf) {
  const chain = new LedgerChain()
  const [lines, checkpoints]: [string[], LedgerCheckpoint[]] = [[], []]
  let ring: KeyRing = withFirstKey(EMPTY_KEY_RING, FIRST, 0)
  const rotations: string[] = []
  for (let round = 0; round < rounds; round += 1) {
    const atMs = 10_000 * (round + 1)
    if (round > 0) {
      const next = generateSigningKey()
      const lastCheckpoints = checkpoints.slice(-1).map(checkpointHash)
      ring = rotateKeys(ring, {
        ...{ next, nowMs: atMs - 5_000, overlapMs: OVERLAP_MS, lastCheckpoints },
      })
    }
    const recorded = rotationsToRecord(ring, rotations).map((each) => chain.appendRotation(each))
    rotations.push(...recorded)
    const told = history.slice(round * 3, round * 3 + 3).map((entry) => chain.append(entry))
    lines.push(...recorded, ...told)
    checkpoints.push(
      sealChain(chain, { key: sign(ring), atMs, previous: checkpoints.at(-1) ?? null }),
    )
  }
  return { lines, checkpoints, ring, rotations }
}

describe('a ledger with rotations of its keys', () => {
  it('is proven by the first key alone, and by all of them', () => {
    const { lines, checkpoints, ring, rotations } = rotating(3)
    expect(rotations).toHaveLength(2)
    for (const keys of [[verifier(FIRST)], ring.keys]) {
      expect(verifyLedger({ lines, checkpoints }, keys)).toMatchObject({ ok: true, sealed: 11 })
    }
    const last = signingKeyOf(ring)
    const unproven = verifyLedger({ lines, checkpoints }, [verifier(last)])
    expect(unproven.ok).toBe(false)
    expect(unproven.first?.problem).toContain('is not known')
  })

  it('is not proven by a key that had retired when it signed', () => {
    const { lines, checkpoints } = rotating(2, () => FIRST)
    const verdict = verifyLedger({ lines, checkpoints }, [verifier(FIRST)])
    expect(verdict).toMatchObject({ ok: false, checkpoints: 1 })
    expect(verdict.first?.problem).toContain('is retired')
  })

  it('shows a rotation that was altered, left out, or made by a key that nobody trusts', () => {
    const { lines, checkpoints } = rotating(2)
    const at = lines.findIndex((line) => line.includes('"rotation"'))
    const line = lines[at] ?? ''
    const keys = [verifier(FIRST)]
    const altered = lines.with(at, line.replace(/"atMs":\d/, '"atMs":9'))
    expect(verifyLedger({ lines: altered, checkpoints }, keys).first?.line).toBe(at + 1)
    const fewer = rewrittenLines(lines.toSpliced(at, 1))
    expect(verifyLedger({ lines: fewer, checkpoints }, keys).ok).toBe(false)
    const forged = lines.with(at, forgedBy(generateSigningKey(), line))
    const found = verifyLedger({ lines: rewrittenLines(forged), checkpoints }, keys)
    expect(found.first).toMatchObject({ line: at + 1 })
    expect(found.first?.problem).toContain('is no rotation of keys')
  })

  it('is not proven by a second successor that a key has named, however it is dated', () => {
    const { lines, checkpoints, ring } = rotating(2)
    const full = ring.keys.map(({ keyId, publicKey, state, retiresAtMs }) => {
      return { keyId, publicKey, state, retiresAtMs }
    })
    const chain = new LedgerChain()
    for (const line of lines) chain.accept(line)
    const evil = generateSigningKey()
    // Dated back to when the stolen key still was the one that signed.
    const ill = rotateKeys(withFirstKey(EMPTY_KEY_RING, FIRST, 0), {
      ...{ next: evil, nowMs: 10_001, overlapMs: 0 },
    })
    const forged = [
      ...rotationsToRecord(ill, []).map((each) => chain.appendRotation(each)),
      ...history.slice(6, 7).map((entry) => chain.append(entry)),
    ]
    const previous = checkpoints.at(-1) ?? null
    const last = sealChain(chain, { key: evil, atMs: 90_000, previous })
    const whole = { lines: [...lines, ...forged], checkpoints: [...checkpoints, last] }
    for (const keys of [[verifier(FIRST)], full]) {
      expect(verifyLedger({ lines, checkpoints }, keys).ok).toBe(true)
      const { ok, first } = verifyLedger(whole, keys)
      expect([ok, first?.line]).toEqual([false, lines.length + 1])
      expect(first?.problem).toContain('has named its successor')
    }
    // The rotation to the true successor was cut off; whoever knows of it is not deceived.
    const cut = new LedgerChain()
    const early = lines.slice(0, 3)
    for (const line of early) cut.accept(line)
    early.push(...rotationsToRecord(ill, []).map((each) => cut.appendRotation(each)))
    const sealedAgain = sealChain(cut, {
      key: evil,
      atMs: 90_000,
      previous: checkpoints[0] ?? null,
    })
    const short = { lines: early, checkpoints: [...checkpoints.slice(0, 1), sealedAgain] }
    expect(verifyLedger(short, full).first?.problem).toContain('is not known to follow it')
    const active = ring.keys.map((key) => ({ ...key, state: 'active', retiresAtMs: null }) as const)
    expect(verifyLedger(short, active).first?.problem).toContain('is not known to follow it')
  })

  it('is not proven by a key that has named its successor, however it dates the checkpoint', () => {
    const { lines, checkpoints } = rotating(2)
    const chain = new LedgerChain()
    for (const line of lines) chain.accept(line)
    const forged = chain.append(history[6] ?? unlived())
    const previous = checkpoints.at(-1) ?? null
    for (const atMs of [10_001, 15_500, 20_001]) {
      const last = sealedAt(chain, { key: FIRST, atMs, previous })
      const whole = { lines: [...lines, forged], checkpoints: [...checkpoints, last] }
      expect(verifyLedger(whole, [verifier(FIRST)])).toMatchObject({ ok: false, checkpoints: 2 })
    }
  })

  it('is not proven by an old key that seals on what it has cut off, however it is dated', () => {
    const { lines, checkpoints, ring } = rotating(2)
    const early = lines.slice(0, 3)
    for (const [kept, previous] of [
      [early, checkpoints[0] ?? unlived()],
      [[], null],
    ] as const) {
      const chain = new LedgerChain()
      for (const line of kept) chain.accept(line)
      const forged = [...kept, chain.append(history[6] ?? unlived())]
      for (const atMs of [10_001, 14_999, 15_000, 90_000]) {
        const last = sealedAt(chain, { key: FIRST, atMs, previous })
        const whole = {
          lines: forged,
          checkpoints: [previous, last].filter((each) => each !== null),
        }
        const { ok, first } = verifyLedger(whole, ring.keys)
        expect([ok, first?.line]).toEqual([false, kept.length + 1])
        expect(first?.problem).toContain('has named its successor')
      }
    }
  })

  it('is proven up to the last checkpoint of a key that was rotated since, and not to an earlier', () => {
    const chain = new LedgerChain()
    const lines: string[] = []
    const checkpoints: LedgerCheckpoint[] = []
    for (const entry of history.slice(0, 2)) {
      lines.push(chain.append(entry))
      // By a clock that is set back by 5 s before the rotation.
      const previous = checkpoints.at(-1) ?? null
      checkpoints.push(sealChain(chain, { key: FIRST, atMs: 20_000, previous }))
    }
    const first = withFirstKey(EMPTY_KEY_RING, FIRST, 0)
    const lastCheckpoints = checkpoints.slice(-1).map(checkpointHash)
    const next = generateSigningKey()
    const ring = rotateKeys(first, { next, nowMs: 15_000, overlapMs: 0, lastCheckpoints })
    expect(verifyLedger({ lines, checkpoints }, ring.keys)).toMatchObject({
      ok: true,
      keys: [FIRST.keyId],
    })
    const cut = { lines: lines.slice(0, 1), checkpoints: checkpoints.slice(0, 1) }
    expect(verifyLedger(cut, ring.keys)).toMatchObject({ ok: false, first: { line: 1 } })
    lines.push(...rotationsToRecord(ring, []).map((each) => chain.appendRotation(each)))
    checkpoints.push(
      sealChain(chain, { key: next, atMs: 15_001, previous: checkpoints[1] ?? null }),
    )
    for (const keys of [ring.keys, first.keys]) {
      expect(verifyLedger({ lines, checkpoints }, keys)).toMatchObject({
        ok: true,
        keys: [FIRST.keyId, next.keyId],
      })
    }
  })

  it('is sealed by one line of keys, whichever others are known', () => {
    const { lines, checkpoints, ring } = rotating(1)
    const stranger = withFirstKey(EMPTY_KEY_RING, generateSigningKey(), 0)
    const { keys } = importKeys(ring, stranger)
    expect(verifyLedger({ lines, checkpoints }, keys)).toMatchObject({ ok: true })
    const chain = new LedgerChain()
    for (const line of lines) chain.accept(line)
    const more = [...lines, chain.append(history[3] ?? unlived())]
    const previous = checkpoints[0] ?? null
    const last = sealChain(chain, { key: signingKeyOf(stranger), atMs: 90_000, previous })
    const { ok, first } = verifyLedger({ lines: more, checkpoints: [...checkpoints, last] }, keys)
    expect([ok, first?.problem]).toEqual([
      false,
      expect.stringContaining('is not the one that seals this ledger'),
    ])
  })

  it('is not proven by a checkpoint that is dated before the one before it', () => {
    const key = generateSigningKey()
    const chain = new LedgerChain()
    const told = history.slice(0, 2).map((entry) => chain.append(entry))
    const one = sealChain(chain, { key, atMs: 20_000, previous: null })
    const more = [...told, chain.append(history[2] ?? unlived())]
    const back = sealedAt(chain, { key, atMs: 15_000, previous: one })
    const keys = [verifier(key)]
    const verdict = verifyLedger({ lines: more, checkpoints: [one, back] }, keys)
    expect(verdict).toMatchObject({ ok: false, sealed: 2, first: { line: 3 } })
    expect(verdict.first?.problem).toContain('is dated before')
    // An honest sealer whose clock was set back dates its checkpoint like the last.
    const honest = sealChain(chain, { key, atMs: 15_000, previous: one })
    expect(honest.atMs).toBe(20_000)
    expect(verifyLedger({ lines: more, checkpoints: [one, honest] }, keys).ok).toBe(true)
  })

  it('shows a rotation that cannot be read at its line', () => {
    const start = hash('sha256', 'tenure-chain/1\nkeys:', 'hex')
    for (const content of ['{junk', '{}', '{"rotation":1']) {
      const body = `{"n":1,"position":"","realm":"keys:","rotation":${content}`
      const line = `${body},"hash":"${hash('sha256', `${start}${body}`, 'hex')}"}`
      const { first } = verifyLedger({ lines: [line], checkpoints: [] }, [verifier(FIRST)])
      expect(first).toMatchObject({
        line: 1,
        problem: expect.stringContaining('rotation') as string,
      })
    }
    for (const odd of ['1', 'null']) {
      const body = `{"n":1,"position":"","realm":"keys:","rotation":{},"rotation":${odd}`
      const line = `${body},"hash":"${hash('sha256', `${start}${body}`, 'hex')}"}`
      const { first } = verifyLedger({ lines: [line], checkpoints: [] }, [verifier(FIRST)])
      expect(first?.problem).toMatch(/a rotation is no JSON object$/)
    }
  })

  it('tells of none but the keys that lead to the one which signs', () => {
    const foreign = rotateKeys(withFirstKey(EMPTY_KEY_RING, generateSigningKey(), 0), {
      ...{ next: generateSigningKey(), nowMs: 5_000, overlapMs: OVERLAP_MS },
    })
    const { ring } = rotating(3)
    const own = rotationsToRecord(ring, [])
    expect(own).toHaveLength(2)
    expect(rotationsToRecord(importKeys(ring, foreign), [])).toEqual(own)
  })

  it('tells the same of leases as one without them', () => {
    const { lines } = rotating(3)
    const text = lines.map((line) => `${line}\n`).join('')
    expect(readLedger(text).events).toEqual(history.slice(0, 9).map(({ event }) => event))
  })
})

function unlived(): never {
  throw new Error('the world has not lived long enough')
}

/** What a thief of a key signs: at whatever time it likes. */
function sealedAt(
  chain: LedgerChain,
  { previous, ...how }: Parameters<typeof sealChain>[1],
): LedgerCheckpoint {
  const earlier = previous === null ? null : { ...previous, atMs: 0 }
  const { signature: _signature, ...facts } = sealChain(chain, { ...how, previous: earlier })
  const linked = { ...facts, previous: previous === null ? '' : checkpointHash(previous) }
  const signature = Buffer.from(how.key.sign(checkpointBytes(linked))).toString('base64url')
  return { ...linked, signature }
}

interface Line {
  readonly position: string
  readonly event?: LedgerEntry['event']
  readonly rotation?: Readonly<Record<string, unknown>>
}

/** All numbers and hashes anew. */
function rewrittenLines(lines: readonly string[]): readonly string[] {
  const chain = new LedgerChain()
  return lines.map((line) => {
    const { position, event, rotation } = JSON.parse(line) as Line
    if (event !== undefined) return chain.append({ position, event })
    return chain.appendRotation(rotation ?? {})
  })
}

/** The rotation of a line, with a new key and signatures of a stranger. */
function forgedBy(stranger: SigningKey, line: string): string {
  const ring = rotateKeys(withFirstKey(EMPTY_KEY_RING, stranger, 0), {
    ...{ next: generateSigningKey(), nowMs: 5_000, overlapMs: OVERLAP_MS },
  })
  const [rotation] = rotationsToRecord(ring, [])
  return JSON.stringify({ ...(JSON.parse(line) as Line), rotation })
}
