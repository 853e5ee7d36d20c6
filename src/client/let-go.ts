/**
 * What a client let go of while it was asking for something: an answer that was on its way may still tell of a lease to
 * which this client itself has put an end, and must not bring it back.
 *
 * Kept by what is asked for, a realm or a lease, and only while anybody asks for it. Where somebody always does, the
 * latest are kept: far more than can end during one call.
 */
import type { LeaseId } from '../core/lease.ts'
import { TransientMap } from '../runtime/transient-map.ts'

const ENDED_MAX = 1_000

interface Subject {
  asking: number
  readonly ended: LeaseId[]
}

export class LetGo {
  readonly #subjects = new TransientMap<string, Subject>()

  begin(subjects: readonly string[]): void {
    for (const name of subjects) {
      const subject = this.#subjects.get(name)
      if (subject === undefined) this.#subjects.set(name, { asking: 1, ended: [] })
      else subject.asking += 1
    }
  }

  end(subjects: readonly string[]): void {
    for (const name of subjects) {
      const subject = this.#subjects.get(name)
      if (subject === undefined) continue
      subject.asking -= 1
      if (subject.asking === 0) this.#subjects.delete(name)
    }
  }

  note(leaseId: LeaseId, realm: string): void {
    this.#noteIn(realm, leaseId)
    this.#noteIn(leaseId, leaseId)
  }

  #noteIn(subject: string, leaseId: LeaseId): void {
    const ended = this.#subjects.get(subject)?.ended
    if (ended === undefined) return
    ended.push(leaseId)
    if (ended.length > ENDED_MAX) ended.splice(0, ENDED_MAX / 2)
  }

  has(leaseId: LeaseId, realm: string): boolean {
    return this.#hasIn(realm, leaseId) || this.#hasIn(leaseId, leaseId)
  }

  #hasIn(subject: string, leaseId: LeaseId): boolean {
    return this.#subjects.get(subject)?.ended.includes(leaseId) === true
  }
}
