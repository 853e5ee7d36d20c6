/**
 * Breaks circles of those who wait for each other, when one of them has just begun to wait or was given something. The
 * search is no part of safety: one that fails changes nothing, and the next sign of life of a waiter looks again.
 */
import type { Entry, Lease, LeaseId, Ticket } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import type { Refusal } from '../core/outcome.ts'
import type { Store } from '../store-port/store.ts'
import type { CommandRunner } from './command-runner.ts'
import { findCycle, findCycleOf, lastToWish, type Cycle } from './deadlock.ts'

export class CycleBreaker {
  readonly #store: Store
  readonly #runner: CommandRunner
  /** Searches that no caller waits for. */
  readonly #looks = new Set<Promise<void>>()

  constructor(store: Store, runner: CommandRunner) {
    this.#store = store
    this.#runner = runner
  }

  /**
   * Refuses the youngest ticket of a circle that one of these tickets or upgrades is part of; says so if it is one of
   * them. A search that fails changes nothing: whoever waits goes on waiting, and somebody looks again.
   */
  async breakAround(leaseIds: readonly LeaseId[]): Promise<Refusal | null> {
    try {
      return await this.#breakOnce(leaseIds)
    } catch {
      // Once more, and the caller need not wait for it: of two in a circle it may be the only one who looks.
      this.#lookApart(() => this.#breakOnce(leaseIds))
      return null
    }
  }

  async #breakOnce(leaseIds: readonly LeaseId[]): Promise<Refusal | null> {
    const { entries } = await this.#store.find({ ids: leaseIds, limit: leaseIds.length })
    for (const entry of entries) {
      const cycle = await findCycle(this.#store, entry)
      if (cycle === null) continue
      const refused = await this.#refuse(cycle, entry)
      const leaseId = refused.find((id) => leaseIds.includes(id))
      if (leaseId !== undefined) return { kind: 'deadlock', leaseId, cycle: cycle.steps }
    }
    return null
  }

  /**
   * A circle may also be closed by somebody who is given something while it waits for something else. Then nobody has
   * filed anything, and whoever gave or took it looks.
   */
  lookLater({ session }: Lease): void {
    // Whoever got something must not wait for the look: its time runs already.
    this.#lookApart(() => this.#breakCyclesOf(session))
  }

  /** If it fails, the next sign of life of whoever waits looks again. */
  #lookApart(work: () => Promise<unknown>): void {
    const look: Promise<void> = work()
      .then(
        () => undefined,
        () => undefined,
      )
      .finally(() => void this.#looks.delete(look))
    this.#looks.add(look)
  }

  async #breakCyclesOf(session: string): Promise<void> {
    const query = { session, states: ['pending'], limit: 1 } as const
    const [waiting] = (await this.#store.find(query)).entries
    const cycle = waiting === undefined ? null : await findCycleOf(this.#store, waiting)
    if (cycle !== null && waiting !== undefined) await this.#refuse(cycle, waiting)
  }

  /**
   * The ids of those that were refused: a ticket, with all that can only be served together with it. Where all in the
   * circle wish to be upgraded it is the last to wish, who gives up by itself when it looks: if everybody took back its
   * own wish, two who wish in the same moment would both be refused. Whoever was served since somebody looked is not
   * among them.
   */
  async #refuse(cycle: Cycle, closer: Entry): Promise<readonly LeaseId[]> {
    const { youngest } = cycle
    if (youngest === null) {
      const { id: leaseId, resource, extent, holder } = closer
      if ((await lastToWish(this.#store, cycle.ids)) !== leaseId) return []
      const wish = { leaseId, resource, extent, holder }
      const { outcome } = await this.#runner.run({ kind: 'withdraw_upgrade', ...wish })
      return outcome.kind === 'upgrade_withdrawn' ? [leaseId] : []
    }
    const together = youngest.group === null ? [youngest] : await this.#groupOf(youngest)
    const refused: LeaseId[] = []
    for (const { id: leaseId, resource, extent, orderUs } of together) {
      const ticket = { leaseId, resource, extent, orderUs }
      const { outcome } = await this.#runner.run({
        kind: 'refuse_deadlock',
        ...ticket,
        cycle: cycle.steps,
      })
      if (outcome.kind === 'withdrawn') refused.push(leaseId)
    }
    return refused
  }

  async #groupOf({ session, group }: Ticket): Promise<readonly Ticket[]> {
    const query = { session, states: ['pending'], limit: LIST_LIMIT_MAX } as const
    const { entries } = await this.#store.find(query)
    const tickets = entries.filter((entry) => entry.kind === 'ticket')
    return tickets.filter((ticket) => ticket.group === group)
  }

  /** Waits for the searches that nobody else waits for. */
  async settled(): Promise<void> {
    await Promise.all(this.#looks)
  }
}
