/**
 * What becomes of a wait that has ended: its ticket is withdrawn, or a lease that it was granted too late; or, where it was
 * left, a grant is passed on.
 *
 * No caller waits for a withdrawal. It is given up after a minute, and in a process with a backlog as soon as there is
 * nothing left to withdraw: after a while such a process would send nothing but withdrawals.
 */
import { isLeaseError } from '../core/errors.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { Requester } from '../service/lease-api.ts'
import type { TakeOver } from './background-work.ts'
import type { GrantedAnswer, PendingRequest, WaitAnswer, Why } from './pending-request.ts'
import { BACKGROUND_WITHIN_MS, effectOf, retry } from './retry.ts'

interface Surroundings {
  readonly runtime: Runtime
  readonly background: TakeOver
}

interface EndOfWait {
  readonly why: Why
  /** The call that the wait has left without hearing its answer. */
  readonly underWay: Promise<WaitAnswer> | null
}

export function withdrawLater(
  { runtime, background }: Surroundings,
  request: PendingRequest,
  end: EndOfWait,
): void {
  background('client/withdraw', withdraw(runtime, request, end))
}

/**
 * 1. Withdraw now, so that no other waits behind this ticket and a grant that came meanwhile is released.
 * 2. A call that is still under way may reach the store after that; when it has ended, withdraw what it left.
 */
async function withdraw(
  runtime: Runtime,
  request: PendingRequest,
  { why, underWay }: EndOfWait,
): Promise<void> {
  const limits = { runtime, withinMs: BACKGROUND_WITHIN_MS }
  const send = (): Promise<unknown> => {
    const requester = new WithdrawalRequester(runtime, request.lapsesAfterMs)
    return retry(limits, () => request.withdraw(why, requester)).catch(unlessDropped)
  }
  const hasLeft = underWay === null ? false : mayHaveLeft(underWay)
  await send().catch(reportTo('client/withdraw'))
  if (await hasLeft) await send()
}

class WithdrawalRequester implements Requester {
  readonly #runtime: Runtime
  readonly #pointlessAtMs: number

  constructor(runtime: Runtime, lapsesAfterMs: number) {
    this.#runtime = runtime
    this.#pointlessAtMs = runtime.monotonicMs() + lapsesAfterMs
  }

  onKeptBack(): void {}

  begins(): boolean {
    return this.#runtime.monotonicMs() < this.#pointlessAtMs
  }
}

async function mayHaveLeft(call: Promise<WaitAnswer>): Promise<boolean> {
  try {
    const answer = await call
    return ['granted', 'granted_all', 'queued', 'queued_all'].includes(answer.kind)
  } catch (error) {
    if (!isDropped(error)) report('client/wait', error)
    return effectOf(error) === 'unknown'
  }
}

/** A store drops what it keeps back when its caller does not want it any more. */
function isDropped(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'ABORTED'
}

function unlessDropped(error: unknown): void {
  if (!isDropped(error)) throw error
}

export async function passOnGrant(
  call: Promise<WaitAnswer>,
  onGrant: (granted: GrantedAnswer) => void,
): Promise<void> {
  const answer = await call
  if (answer.kind === 'granted' || answer.kind === 'granted_all') onGrant(answer)
}
