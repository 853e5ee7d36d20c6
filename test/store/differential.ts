/**
 * Runs one seeded script against two stores, in step, and demands the same answer from both at every step and the same
 * entries and events at the end. It does not stop before everything that a call can come to has come up. After every
 * step derived leases must be within those that they come from, by a reckoning of its own.
 */
import { isDeepStrictEqual } from 'node:util'
import { isLeaseError } from '../../src/core/errors.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { Families } from '../../sim/checkers/i11-less-never-more.ts'
import type { Store } from '../../src/store-port/store.ts'
import { allEntries } from '../../src/testing/all-entries.ts'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import { FakeRuntime, ManualTicks, type TestClock } from '../../src/testing/fake-runtime.ts'
import { DifferentialScript, type ScriptStep, type Side } from './differential-script.ts'

/** Opens an empty store on the given clock. */
export type OpenStore = (ticks: ManualTicks) => Promise<Store>

/** A store, and the clock that it goes by. */
export interface OpenedSide {
  readonly store: Store
  readonly ticks: TestClock
}

export interface DifferentialOptions {
  /** Both stores go by one clock that nobody sets: the script leaves clocks alone. */
  readonly oneClock: boolean
}

export interface DifferentialResult {
  readonly steps: number
  /** How often each call came to what. */
  readonly outcomes: ReadonlyMap<string, number>
}

/** Everything but a full queue, for which ten thousand would have to wait. */
const REQUIRED: readonly string[] = [
  ...['acquire granted', 'acquire granted again', 'acquire queued', 'acquire terminal'],
  ...['acquire expired', 'acquire id_taken', 'acquire malformed_setting', 'acquire held not_asked'],
  ...['acquire held own', 'acquire held waiting_disabled'],
  ...['claim granted', 'claim granted again', 'claim queued', 'claim dropped', 'claim not_holder'],
  ...['claim terminal', 'claim expired', 'withdraw withdrawn', 'withdraw withdrawn and released'],
  ...['withdraw not_holder', 'renew renewed', 'renew not_found', 'renew not_holder'],
  ...['renew terminal', 'renew expired', 'renew request_reused', 'renew renewal_limit'],
  ...['renew does_not_extend', 'release released', 'release not_found', 'release not_holder'],
  ...['release terminal', 'release expired', 'release request_reused', 'revoke revoked'],
  ...['revoke not_found', 'revoke terminal', 'revoke expired', 'revoke request_reused'],
  ...['renew renewal_limit', 'upgrade upgraded', 'upgrade upgrading'],
  ...['upgrade held not_asked', 'upgrade deadlock', 'upgrade not_holder', 'upgrade not_found'],
  ...['upgrade terminal', 'upgrade expired', 'withdrawUpgrade upgraded'],
  ...['withdrawUpgrade upgrade_withdrawn', 'downgrade downgraded', 'downgrade not_holder'],
  ...['downgrade request_reused', 'transfer transferred', 'transfer nobody_waiting'],
  ...['transfer not_holder', 'transfer terminal', 'transfer expired', 'transfer id_taken'],
  ...['transfer request_reused', 'adopt granted', 'adopt granted again', 'adopt not_found'],
  ...['adopt expired', 'adopt terminal', 'adopt already_adopted', 'acquireAll granted_all'],
  ...['acquireAll granted again', 'acquireAll queued_all', 'acquireAll held not_asked'],
  ...['claimAll granted_all', 'claimAll granted again'],
  ...['claimAll queued_all', 'claimAll dropped', 'claimAll expired'],
  ...['advance advanced', 'advance stale_epoch', 'advance no_epoch', 'advance not_holder'],
  ...['advance expired', 'advance terminal', 'advance not_found', 'advance request_reused'],
  ...['derive granted', 'derive granted again', 'derive invalid_derivation', 'derive not_holder'],
  ...['derive held not_asked', 'derive not_found', 'derive expired', 'derive terminal'],
  ...['spend spent', 'spend budget_exhausted', 'spend not_holder', 'spend expired'],
  ...['spend terminal', 'spend request_reused', 'transfer invalid_derivation'],
  ...['upgrade invalid_derivation', 'downgrade invalid_derivation'],
]

const STEPS_MIN = 800
const STEPS_MAX = 20_000

export async function runDifferential(
  seed: number,
  openA: OpenStore,
  openB: OpenStore,
): Promise<DifferentialResult> {
  return compareStores(seed, [await openOn(openA), await openOn(openB)], { oneClock: false })
}

async function openOn(open: OpenStore): Promise<OpenedSide> {
  const ticks = new ManualTicks()
  return { store: await open(ticks), ticks }
}

export async function compareStores(
  seed: number,
  opened: readonly [OpenedSide, OpenedSide],
  options: DifferentialOptions,
): Promise<DifferentialResult> {
  const sides = [sideOf(opened[0]), sideOf(opened[1])] as const
  const script = new DifferentialScript(randomFrom(seed), options)
  const outcomes = new Map<string, number>()
  const missing = new Set(REQUIRED)
  const families = new Families()
  let steps = 0
  while (steps < STEPS_MIN || missing.size > 0) {
    if (steps === STEPS_MAX) {
      throw new Error(`seed ${seed}: never came to ${[...missing].join(', ')}`)
    }
    steps += 1
    // A millisecond per step, so that a store which counts decisions without effect agrees with one that does not.
    for (const side of sides) side.ticks.pass(1)
    const step = script.next()
    const label = await compareStep(sides, step, `seed ${seed}, step ${steps}`)
    script.hear(step, label)
    outcomes.set(label, (outcomes.get(label) ?? 0) + 1)
    missing.delete(label)
    const { spending } = step
    if (spending !== undefined && label === 'spend spent') {
      families.spent(spending.leaseId, spending.amounts)
    }
    await checkFamilies(families, sides[0].store, `seed ${seed}, step ${steps}: after ${label}`)
  }
  await compareAll(sides, `seed ${seed}, after ${steps} steps`)
  for (const side of sides) await side.api.close()
  return { steps, outcomes }
}

/** The other store has the same, or the step would have differed. */
async function checkFamilies(families: Families, store: Store, where: string): Promise<void> {
  const { entries } = await store.find({ states: ['active'], limit: 10_000 })
  const wrong = families.wrongWith(new Map(entries.map((entry) => [entry.id, entry])))
  if (wrong.length > 0) throw new Error(`${where}: ${wrong.join('; ')}`)
}

function sideOf({ store, ticks }: OpenedSide): Side {
  return { store, ticks, api: new LeaseService({ store, runtime: new FakeRuntime() }) }
}

async function compareStep(
  [a, b]: readonly [Side, Side],
  step: ScriptStep,
  where: string,
): Promise<string> {
  const [first, second] = [await answerOf(step, a), await answerOf(step, b)]
  if (!isDeepStrictEqual(first, second)) {
    const [left, right] = [JSON.stringify(first), JSON.stringify(second)]
    throw new Error(`${where}: ${step.name} differs\n  ${left}\n  ${right}`)
  }
  return labelOf(step.name, first)
}

/** An error is an answer too, but for its stack. */
async function answerOf(step: ScriptStep, side: Side): Promise<unknown> {
  try {
    const answer = await step.run(side)
    await side.api.settled()
    return answer
  } catch (error) {
    if (!isLeaseError(error)) throw error
    return { kind: error.code, message: error.message }
  }
}

function labelOf(name: string, answer: unknown): string {
  if (typeof answer !== 'object' || answer === null || !('kind' in answer)) return name
  const { kind } = answer
  if ('notWaiting' in answer) return `${name} held ${String(answer.notWaiting)}`
  if ('repeated' in answer && answer.repeated === true) return `${name} granted again`
  if ('released' in answer && answer.released === true) return `${name} withdrawn and released`
  return `${name} ${String(kind)}`
}

async function compareAll([a, b]: readonly [Side, Side], where: string): Promise<void> {
  const [left, right] = [await everything(a.store), await everything(b.store)]
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    if (isDeepStrictEqual(left[at], right[at])) continue
    const [one, other] = [JSON.stringify(left[at]), JSON.stringify(right[at])]
    throw new Error(`${where}: what is kept differs\n  ${one}\n  ${other}`)
  }
}

async function everything(store: Store): Promise<readonly unknown[]> {
  const entries = (await allEntries(store)).toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const ledger = await store.history({ limit: 10_000 })
  return [...entries, ...ledger.map((entry) => entry.event)]
}
