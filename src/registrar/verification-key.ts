/**
 * Public keys, and the one rule that says which of them may verify what: for grants, checkpoints and rotations alike. A
 * key whose state or time is not understood verifies nothing.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import { keyIdOf, requireSoundKey } from './ed25519.ts'

export type KeyState = 'active' | 'retiring' | 'retired'

export const KEY_STATES: readonly KeyState[] = ['active', 'retiring', 'retired']

/** Who follows a key, as both of them have signed it. */
export interface Succession {
  readonly keyId: string
  readonly atMs: number
  /** Hashes of the last checkpoints that the key has signed, one for each ledger that it sealed. */
  readonly lastCheckpoints: readonly string[]
}

/** What a verifier needs to know of a key. */
export interface VerificationKey {
  readonly keyId: string
  readonly publicKey: Uint8Array
  /** `retiring` verifies until `retiresAtMs`, `retired` never. */
  readonly state: KeyState
  /** Null, or left out: no end is known, which a key that is `retiring` must have. */
  readonly retiresAtMs?: number | null
  /** Null, or left out: none is known. */
  readonly successor?: Succession | null
}

/** The keys that a verifier trusts: all of them, or a function that finds one by its id and answers at once. */
export type VerificationKeys =
  readonly VerificationKey[] | ((keyId: string) => VerificationKey | null | undefined)

/** What finds a key by its id; whatever it finds is a key. Throws `INVALID_INPUT` like `requireKeys`. */
export type KeyFinder = (keyId: string) => VerificationKey | undefined

export function finderOf(keys: VerificationKeys): KeyFinder {
  if (typeof keys !== 'function') {
    const known = requireKeys(keys)
    return (keyId) => known.find((key) => key.keyId === keyId)
  }
  return (keyId) => {
    const key = keys(keyId)
    if (key === null || key === undefined) return undefined
    requireKeyFacts(`keys(${show(keyId)})`, key)
    return key
  }
}

/** Keys as a program has given them; throws `INVALID_INPUT` with the field that is not what it must be. */
export function requireKeys(keys: unknown): readonly VerificationKey[] {
  if (!Array.isArray(keys)) throw invalid('keys', 'must be keys, or a function of their ids', keys)
  for (const [index, key] of keys.entries()) requireKeyFacts(`keys[${index}]`, key)
  return keys as readonly VerificationKey[]
}

function requireKeyFacts(field: string, key: unknown): void {
  if (typeof key !== 'object' || key === null) throw invalid(field, 'must be a key', key)
  const { keyId, publicKey, state, retiresAtMs = null, successor } = key as Partial<VerificationKey>
  if (typeof keyId !== 'string') throw invalid(`${field}.keyId`, 'must be text', keyId)
  if (!(publicKey instanceof Uint8Array)) {
    throw invalid(`${field}.publicKey`, 'must be bytes', publicKey)
  }
  if (!KEY_STATES.some((known) => known === state)) {
    throw invalid(`${field}.state`, `must be one of ${KEY_STATES.join(', ')}`, state)
  }
  if (!isEndOf(state, retiresAtMs)) {
    const expectation =
      state === 'retiring' ? 'must be milliseconds' : 'must be milliseconds or null'
    throw invalid(`${field}.retiresAtMs`, expectation, retiresAtMs)
  }
  if (!isSuccession(successor)) {
    throw invalid(`${field}.successor`, 'must be { keyId, atMs, lastCheckpoints }', successor)
  }
}

function isSuccession(value: unknown): boolean {
  if (value === undefined || value === null) return true
  const { keyId, atMs, lastCheckpoints } = value as Partial<Succession>
  const isListed =
    Array.isArray(lastCheckpoints) && lastCheckpoints.every((hash) => typeof hash === 'string')
  return typeof keyId === 'string' && Number.isSafeInteger(atMs) && isListed
}

/** The key and those that followed it, one after the other, as far as they are known. */
export function successorsFrom(find: KeyFinder, keyId: string): readonly VerificationKey[] {
  const found = new Map<string, VerificationKey>()
  for (let next: string | undefined = keyId; next !== undefined && !found.has(next);) {
    const key: VerificationKey | undefined = find(next)
    if (key === undefined) break
    found.set(next, key)
    next = key.successor?.keyId
  }
  return [...found.values()]
}

/** All keys of the registrar that this one is of, the first of them first; none if it is not known. */
export function keySuccession(
  keys: readonly VerificationKey[],
  keyId: string,
): readonly VerificationKey[] {
  const find = finderOf(keys)
  const lines = keys.map((key) => successorsFrom(find, key.keyId))
  const own = lines.filter((line) => line.some((key) => key.keyId === keyId))
  return own.toSorted((a, b) => b.length - a.length)[0] ?? []
}

/** Whether a key of this state may have this end: one that is retiring does so at some time. */
export function isEndOf(state: KeyState | undefined, retiresAtMs: unknown): boolean {
  if (retiresAtMs === null) return state !== 'retiring'
  return Number.isSafeInteger(retiresAtMs)
}

/** The key of this id, if it may still verify something at this time. */
export function requireVerifier(find: KeyFinder, keyId: string, nowMs: number): VerificationKey {
  const key = find(keyId)
  if (key === undefined) throw untrusted(keyId, 'is not known')
  requireSoundKey(key.publicKey)
  if (keyIdOf(key.publicKey) !== keyId) throw untrusted(keyId, 'is the name of another key')
  if (!isGoodAt(key, nowMs)) throw untrusted(keyId, 'is retired')
  return key
}

function isGoodAt({ state, retiresAtMs = null }: VerificationKey, nowMs: number): boolean {
  if (state === 'active' && retiresAtMs === null) return true
  return (state === 'active' || state === 'retiring') && retiresAtMs !== null && nowMs < retiresAtMs
}

/**
 * The key as it counts for what stands in a ledger. Where its successor is known, the order of the ledger says what it
 * has sealed: a thief can write any time, and an honest clock may be set. A key that was called off before it named a
 * successor, or has none, vouches for what was signed before its end.
 */
export function asSealer(key: VerificationKey): VerificationKey {
  const { state, retiresAtMs = null, successor = null } = key
  if (retiresAtMs === null) return key
  if (successor !== null && retiresAtMs >= successor.atMs) {
    return { ...key, state: 'active', retiresAtMs: null }
  }
  return state === 'retired' ? { ...key, state: 'retiring' } : key
}

export function untrusted(keyId: string, problem: string): LeaseError {
  return new LeaseError('INVALID_SIGNATURE', `key ${keyId} ${problem}`, { details: { keyId } })
}
