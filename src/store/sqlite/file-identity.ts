/**
 * Notices that the database file was removed or replaced while it is open. Whoever opens the path now gets another
 * file, with other leases; going on with the old one would grant what somebody else may hold there.
 */
import fs from 'node:fs'
import { LeaseError } from '../../core/errors.ts'

export class FileIdentity {
  readonly #path: string
  readonly #identity: string

  constructor(path: string) {
    this.#path = path
    this.#identity = identityOf(path)
  }

  check(url: string): void {
    if (identityOf(this.#path) === this.#identity) return
    const message = `${url} was removed or replaced while it was open; open it again`
    throw new LeaseError('STORE_UNAVAILABLE', message, { details: { store: url } })
  }
}

function identityOf(path: string): string {
  const stat = fs.statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? 'none' : `${stat.dev}/${stat.ino}`
}
