/**
 * Rebuilds a store from the events of a ledger: in one commit, all of it or nothing, up to as many events as every
 * store takes at once; beyond that in several, of which a later call can make up for those that are missing.
 */
import { NOTHING } from '../core/commit.ts'
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { RESTORE_STEP_EVENTS } from '../core/limits.ts'
import { restoreSteps, type RestoreStep } from '../core/restore.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { Position, Store } from '../store-port/store.ts'

export interface RestoreOptions {
  /** Goes on with what was cut short: the store must have exactly the beginning of the events. */
  readonly resume: boolean
}

/** Throws `LEASE_EXISTS` when the store has a past already, and writes nothing. */
export async function restoreLedger(
  store: Store,
  events: readonly LeaseEvent[],
  { resume }: RestoreOptions,
): Promise<void> {
  const known = resume ? await countKnown(store, events, 'must have the beginning of it alone') : 0
  if (!resume && !(await isEmpty(store))) throw notEmpty(store, 'must be empty')
  const steps = restoreSteps(events, RESTORE_STEP_EVENTS).filter(({ upTo }) => upTo > known)
  const [first] = steps
  if (first !== undefined && first.after !== known) throw notEmpty(store, 'must be as it was left')
  for (const step of steps) {
    await requireUndisturbed(store, events[step.after - 1])
    try {
      await take(store, step)
    } catch (error) {
      throw isLeaseError(error) ? withHint(error, step, events.length) : error
    }
  }
  // A client that comes between two commits finds free what a later commit says is held.
  if (steps.length > 1) await countKnown(store, events, ALONE)
}

const ALONE = 'must be used by nobody else'

/** Looks before it goes on, so that as little as possible is written into a store that is in use. */
async function requireUndisturbed(store: Store, last: LeaseEvent | undefined): Promise<void> {
  if (last === undefined) return
  const [newest] = await store.history({ newestFirst: true, limit: 1 })
  if (canonicalJson(newest?.event) !== canonicalJson(last)) throw notEmpty(store, ALONE)
}

/** What was imported stays; an import that begins anew would be refused. */
function withHint(error: LeaseError, { after }: RestoreStep, total: number): LeaseError {
  const { code, message, details, effect } = error
  if (after === 0 && effect === 'none') return error
  const there = `${after} of ${total} events are there, and importing again with resume`
  return new LeaseError(code, `${message}; ${there} (--continue) goes on from them`, {
    details: { ...details, events: after },
    effect,
    cause: error,
  })
}

async function take(store: Store, { readSets, problem, commit }: RestoreStep): Promise<void> {
  const taken = await store.transact<Taken>(readSets, (views, now) => {
    const impossible = problem(now)
    const whole = impossible === null ? commit(views) : null
    const outcome = { isDone: whole !== null, impossible }
    return { outcome, commit: whole ?? NOTHING, validUntilUs: null }
  })
  if (taken.impossible !== null) throw new LeaseError('DECODE_ERROR', taken.impossible)
  if (!taken.isDone) throw notEmpty(store, ALONE)
}

interface Taken {
  readonly isDone: boolean
  readonly impossible: string | null
}

async function isEmpty(store: Store): Promise<boolean> {
  const [entry] = await store.history({ limit: 1 })
  const { entries } = await store.find({ limit: 1 })
  // What has ended is in the ledger; what is live need not be.
  return entry === undefined && entries.length === 0
}

/** How many of the events the store has; it must have them in this order, and no others. */
async function countKnown(
  store: Store,
  events: readonly LeaseEvent[],
  expectation: string,
): Promise<number> {
  let known = 0
  let position: Position | null = null
  for (;;) {
    const after: { readonly after?: Position } = position === null ? {} : { after: position }
    const page = await store.history({ ...after, limit: PAGE })
    for (const { event } of page) {
      if (canonicalJson(event) !== canonicalJson(events[known])) {
        throw notEmpty(store, expectation)
      }
      known += 1
    }
    position = page.at(-1)?.position ?? position
    if (page.length < PAGE) return known
  }
}

const PAGE = 5_000

function notEmpty({ description }: Store, expectation: string): LeaseError {
  const message = `store ${expectation} to be rebuilt from a ledger, got ${description.url}`
  return new LeaseError('LEASE_EXISTS', message)
}
