/**
 * Public keys, and the one rule that says which of them may verify what: for grants, checkpoints and rotations alike. A
 * key whose state or time is not understood verifies nothing.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { keyIdOf, requireSoundKey } from './ed25519.ts'

export type KeyState = 'active' | 'retiring' | 'retired'

export const KEY_STATES: readonly KeyState[] = ['active', 'retiring', 'retired']

/** What somebody who verifies needs to know of a key. */
export interface VerificationKey {
  readonly keyId: string
  readonly publicKey: Uint8Array
  /** `retiring` verifies until `retiresAtMs`, `retired` never. */
  readonly state: KeyState
  readonly retiresAtMs: number | null
}

/** Keys as a program has given them; throws `INVALID_INPUT` with the field that is not what it must be. */
export function requireKeys(keys: unknown): readonly VerificationKey[] {
  if (!Array.isArray(keys)) throw invalid('keys', 'must be a list of keys', keys)
  for (const [index, key] of keys.entries()) requireKeyFacts(`keys[${index}]`, key)
  return keys as readonly VerificationKey[]
}

function requireKeyFacts(field: string, key: unknown): void {
  if (typeof key !== 'object' || key === null) throw invalid(field, 'must be a key', key)
  const { keyId, publicKey, state, retiresAtMs } = key as Partial<VerificationKey>
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
}

/** Whether a key of this state may have this end: one that is retiring does so at some time. */
export function isEndOf(state: KeyState | undefined, retiresAtMs: unknown): boolean {
  if (retiresAtMs === null) return state !== 'retiring'
  return Number.isSafeInteger(retiresAtMs)
}

/** The key of this id, if it may still verify something at this time. */
export function requireVerifier(
  keys: readonly VerificationKey[],
  keyId: string,
  nowMs: number,
): VerificationKey {
  const key = keys.find((candidate) => candidate.keyId === keyId)
  if (key === undefined) throw untrusted(keyId, 'is not known')
  requireSoundKey(key.publicKey)
  if (keyIdOf(key.publicKey) !== keyId) throw untrusted(keyId, 'is the name of another key')
  if (!isGoodAt(key, nowMs)) throw untrusted(keyId, 'is retired')
  return key
}

function isGoodAt({ state, retiresAtMs }: VerificationKey, nowMs: number): boolean {
  if (state === 'active' && retiresAtMs === null) return true
  return (state === 'active' || state === 'retiring') && retiresAtMs !== null && nowMs < retiresAtMs
}

/** The keys as they count for what was signed at some time in the past. */
export function keysOfThen(keys: readonly VerificationKey[]): readonly VerificationKey[] {
  return keys.map(asOfThen)
}

/** A key that has retired since may have signed rightly before; when it retired is what counts. */
function asOfThen(key: VerificationKey): VerificationKey {
  const isTimed = key.state === 'retired' && key.retiresAtMs !== null
  return isTimed ? { ...key, state: 'retiring' } : key
}

export function untrusted(keyId: string, problem: string): LeaseError {
  return new LeaseError('INVALID_SIGNATURE', `key ${keyId} ${problem}`, { details: { keyId } })
}
