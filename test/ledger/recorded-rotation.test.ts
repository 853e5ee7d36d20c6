import { beforeAll, describe, expect, it } from 'vitest'
import { generateSigningKey, type SigningKey } from '../../src/ledger/ed25519.ts'
import {
  EMPTY_KEY_RING,
  rotateKeys,
  signingKeyOf,
  withFirstKey,
  type KeyRing,
} from '../../src/ledger/key-ring.ts'
import { sealChain, type LedgerCheckpoint } from '../../src/ledger/ledger-checkpoint.ts'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { rotationsToRecord } from '../../src/ledger/recorded-rotation.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { verifyLedger } from '../../src/ledger/verify-ledger.ts'
import type { LedgerEntry } from '../../src/store-port/store.ts'
import { verifier } from './grants.ts'
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
      ring = rotateKeys(ring, { next, nowMs: atMs - 5_000, overlapMs: OVERLAP_MS })
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
    expect(verifyLedger({ lines, checkpoints }, [verifier(last)]).ok).toBe(false)
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

  it('tells the same of leases as one without them', () => {
    const { lines } = rotating(3)
    const text = lines.map((line) => `${line}\n`).join('')
    expect(readLedger(text).events).toEqual(history.slice(0, 9).map(({ event }) => event))
  })
})

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
