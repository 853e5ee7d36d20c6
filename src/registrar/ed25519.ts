/**
 * Ed25519 signatures with keys and signatures held to the strict reading of RFC 8032: keys of small order, for which a
 * signature fits any message, and encodings other than the canonical one are refused before anything is verified.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto'
import { invalid, LeaseError } from '../core/errors.ts'

export const KEY_BYTES = 32
export const SIGNATURE_BYTES = 64

const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex')
const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex')
const KEY_ID_TAG = 'tenure-key/1\n'
const KEY_ID_LENGTH = 32

/** 2^255 - 19: coordinates are below it. */
const FIELD_PRIME = 2n ** 255n - 19n
/** The order of the group: the second half of a signature is below it. */
const GROUP_ORDER = 2n ** 252n + 27742317777372353535851937790883648493n

/** y of the points whose order divides 8. With either sign of x, a signature of such a key proves nothing. */
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  FIELD_PRIME - 1n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
  FIELD_PRIME - 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
])

/** A key that signs. It keeps the secret to itself: it is not shown, printed or turned into JSON. */
export class SigningKey {
  readonly keyId: string
  readonly publicKey: Uint8Array
  readonly #seed: Uint8Array
  readonly #key: KeyObject

  /** `seed`: the 32 secret bytes of RFC 8032. */
  constructor(seed: Uint8Array) {
    if (!(seed instanceof Uint8Array) || seed.length !== KEY_BYTES) {
      throw invalid('seed', `must be ${KEY_BYTES} bytes`, seed?.length)
    }
    this.#seed = Uint8Array.from(seed)
    const der = Buffer.concat([PKCS8_HEAD, this.#seed])
    this.#key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    this.publicKey = rawPublicKey(createPublicKey(this.#key))
    this.keyId = keyIdOf(this.publicKey)
  }

  sign(message: Uint8Array): Uint8Array {
    return Uint8Array.from(sign(null, message, this.#key))
  }

  /** The secret, for the file that keeps keys. */
  exportSeed(): Uint8Array {
    return Uint8Array.from(this.#seed)
  }

  toJSON(): { readonly keyId: string } {
    return { keyId: this.keyId }
  }
}

export function generateSigningKey(): SigningKey {
  const { privateKey } = generateKeyPairSync('ed25519')
  const der = privateKey.export({ format: 'der', type: 'pkcs8' })
  return new SigningKey(der.subarray(-KEY_BYTES))
}

/** A key is named by its hash, so that no other key can be put under the same name. */
export function keyIdOf(publicKey: Uint8Array): string {
  const hash = createHash('sha256').update(KEY_ID_TAG).update(publicKey).digest('hex')
  return hash.slice(0, KEY_ID_LENGTH)
}

/** Throws `INVALID_SIGNATURE` for a public key that must not be trusted with anything. */
export function requireSoundKey(publicKey: Uint8Array): void {
  if (publicKey.length !== KEY_BYTES) {
    throw unsound(`a public key must be ${KEY_BYTES} bytes, got ${publicKey.length}`)
  }
  requireSoundPoint('public key', publicKey)
}

/** Whether the signature fits; throws `INVALID_SIGNATURE` for keys and signatures that are not of the strict form. */
export function verifySignature(
  message: Uint8Array,
  signature: Uint8Array,
  publicKey: Uint8Array,
): boolean {
  requireSoundKey(publicKey)
  if (signature.length !== SIGNATURE_BYTES) {
    throw unsound(`a signature must be ${SIGNATURE_BYTES} bytes, got ${signature.length}`)
  }
  requireSoundPoint('signature', signature.subarray(0, KEY_BYTES))
  if (littleEndian(signature.subarray(KEY_BYTES)) >= GROUP_ORDER) {
    throw unsound('the second half of the signature is not canonical')
  }
  return verify(null, message, keyObject(publicKey), signature)
}

function requireSoundPoint(what: string, encoded: Uint8Array): void {
  const y = littleEndian(encoded) & (2n ** 255n - 1n)
  if (y >= FIELD_PRIME) throw unsound(`the ${what} is not in its canonical encoding`)
  if (SMALL_ORDER_Y.has(y)) throw unsound(`the ${what} is a point of small order`)
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes.toReversed()).toString('hex')}`)
}

function rawPublicKey(key: KeyObject): Uint8Array {
  return Uint8Array.from(key.export({ format: 'der', type: 'spki' }).subarray(-KEY_BYTES))
}

function keyObject(publicKey: Uint8Array): KeyObject {
  const der = Buffer.concat([SPKI_HEAD, publicKey])
  return createPublicKey({ key: der, format: 'der', type: 'spki' })
}

function unsound(message: string): LeaseError {
  return new LeaseError('INVALID_SIGNATURE', message)
}
