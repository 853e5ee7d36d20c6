/** `tenure acquire`: takes a lease, or several at once, and exits; they stay until they are released or run out. */
import { LeaseError, messageOf } from '../../core/errors.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { withLeases, type HeldLeases } from '../acquire-leases.ts'
import {
  ACQUIRE_OPTIONS,
  RESOURCES,
  wantedLeases,
  type AcquireTable,
  type WantedLeases,
} from '../acquire-options.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { leaseCard } from '../lease-card.ts'
import { interruptible } from '../signals.ts'

export const acquire: CliCommand = defineCommand({
  positionals: [RESOURCES],
  options: ACQUIRE_OPTIONS,
  notes: [
    'Nothing renews a lease once this command has ended: use tenure renew, or tenure run to hold a lease as long as a command runs. With --json, one resource gives a lease, and several give { leases }.',
    'A lease that was transferred to you is taken over by acquiring its resource.',
    'If the answer cannot be written, because a disk is full or nobody reads the pipe, what was acquired is given back, unless you chose its id with --lease-id; the exit status is then 1. A stdout that was closed (>&-) cannot be told from /dev/null: the lease is then held, and its answer is lost.',
  ],
  examples: [
    'tenure acquire src/app.ts --holder agent-7 --ttl 5m --wait 30s --reason "renaming a function"',
    'tenure acquire src/ docs/ --shared --holder agent-7',
    'tenure acquire work:W-17 --json',
  ],
  run,
})

async function run(call: CliCall<AcquireTable>): Promise<number> {
  const { identity, printer } = call
  const wanted = wantedLeases(call)
  const session = identity.session ?? identity.holder
  return interruptible(({ signal }) => {
    return withLeases(wanted, { identity, session, signal, autoRenew: false }, async (held) => {
      const leases = held.leases.map(({ info }) => info)
      try {
        printer.answer(answerOf(leases), () => leases.map(cardOf).join('\n'))
      } catch (error) {
        throw await unwritten(held, wanted, error)
      }
      for (const lease of held.leases) lease.abandon()
      return 0
    })
  })
}

/**
 * No caller knows of a lease whose answer was not written, so it is given back. One whose id the caller chose is left alone:
 * its caller knows it, and may have had it before this command.
 */
async function unwritten(held: HeldLeases, wanted: WantedLeases, cause: unknown): Promise<Error> {
  const { resource, id: leaseId } = held.first
  const isChosen = wanted.own.leaseId !== undefined
  if (isChosen) for (const lease of held.leases) lease.abandon()
  else await held.whole.release({ reason: 'aborted' })
  const fate = isChosen ? `lease ${leaseId} is held` : 'what was acquired was given back'
  const message = `the answer about ${resource} could not be written (${messageOf(cause)}); ${fate}`
  return new LeaseError('ABORTED', message, { cause, details: { resource, leaseId } })
}

function answerOf(leases: readonly LeaseInfo[]): unknown {
  return leases.length === 1 ? leases[0] : { leases }
}

function cardOf(lease: LeaseInfo): string {
  return leaseCard(`acquired ${lease.resource}`, lease, Date.now())
}
