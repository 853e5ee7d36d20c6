/**
 * The grant that an orchestrator's actions carry. It is signed again after each renewal, because a grant ends when the
 * lease did as it was signed; until the new one has come, the old one goes along.
 */
import type { Lease } from '../client/contract.ts'
import { parseGrant } from './action.ts'

export type SignLease = (lease: Lease) => Promise<string> | string

export class WorkflowGrant {
  readonly #lease: Lease
  readonly #sign: SignLease
  #token: string

  /** Null when nobody signs. */
  static async of(lease: Lease, sign: SignLease | undefined): Promise<WorkflowGrant | null> {
    return sign === undefined ? null : new WorkflowGrant(lease, sign, parseGrant(await sign(lease)))
  }

  private constructor(lease: Lease, sign: SignLease, token: string) {
    this.#lease = lease
    this.#sign = sign
    this.#token = token
    this.#lease.on('renewed', () => void this.#renew())
  }

  get token(): string {
    return this.#token
  }

  /** A registrar that is away is asked again at the next renewal. */
  async #renew(): Promise<void> {
    try {
      this.#token = parseGrant(await this.#sign(this.#lease))
    } catch {
      // The old grant still says who holds the workflow, until it ends by itself.
    }
  }
}
