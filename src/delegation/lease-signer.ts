/**
 * Signs leases as grants: the registrar's hand. A child is signed for no longer than each of those it was derived from,
 * whatever wall time the store gave them: a wall clock that was set between two commits must not make a grant that
 * no verifier accepts.
 */
import type { GrantSigner } from '../client/grant-signer.ts'
import { delegationOf } from '../core/delegation.ts'
import { invalid } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import { SigningKey } from '../registrar/ed25519.ts'
import { signGrant, type Grant } from '../registrar/grant.ts'
import { signingKeyOf } from '../registrar/key-ring.ts'
import { fs } from '../runtime/file-system.ts'
import { readKeyFile } from './key-file.ts'

/** What is signed of a lease: what was granted, never what was used. */
export function grantOf(lease: LeaseInfo): Grant {
  const { scope, limits, line, audience = null } = delegationOf(lease)
  return {
    id: lease.id,
    resource: lease.resource,
    mode: lease.mode,
    extent: lease.extent,
    holder: lease.holder,
    fence: lease.fence ?? 0,
    issuedAtMs: lease.grantedAtMs ?? lease.createdAtMs,
    expiresAtMs: lease.expiresAtMs ?? 0,
    parentId: line.at(-1) ?? null,
    audience,
    scope,
    budget: limits,
  }
}

export class LeaseSigner implements GrantSigner {
  readonly #keyNow: () => SigningKey

  private constructor(keyNow: () => SigningKey) {
    this.#keyNow = keyNow
  }

  static of(key: SigningKey): LeaseSigner {
    if (!(key instanceof SigningKey)) throw invalid('signingKey', 'must be a SigningKey', key)
    return new LeaseSigner(() => key)
  }

  /** Reads the file now, so that one that cannot be used is refused at once, and again whenever it was replaced. */
  static ofFile(file: unknown): LeaseSigner {
    if (typeof file !== 'string' || file === '') throw invalid('keyFile', 'must be a path', file)
    let read = readSigningKey(file)
    return new LeaseSigner(() => {
      if (versionOf(file) !== read.version) read = readSigningKey(file)
      return read.key
    })
  }

  sign(line: readonly LeaseInfo[]): string {
    const key = this.#keyNow()
    let token: string | undefined
    let untilMs = Infinity
    for (const lease of line) {
      const grant = grantOf(lease)
      untilMs = Math.min(untilMs, grant.expiresAtMs)
      token = signGrant({ ...grant, expiresAtMs: untilMs }, key, token)
    }
    if (token === undefined) throw new Error('there is nothing to sign')
    return token
  }
}

interface ReadKey {
  readonly key: SigningKey
  readonly version: string
}

function readSigningKey(file: string): ReadKey {
  const version = versionOf(file)
  return { key: signingKeyOf(readKeyFile(file)), version }
}

/** A file of keys is replaced as a whole, so another one has another number. */
function versionOf(file: string): string {
  const status = fs.statSync(file, { throwIfNoEntry: false })
  return status === undefined ? '' : `${status.ino}:${status.mtimeMs}`
}
