/**
 * The faults of the network in one world. Each seed has a profile of its own, so that some worlds are calm enough to get far
 * and others have many faults.
 */
import type { FaultKind } from './log.ts'
import type { Random } from './random.ts'

export type RequestFate = 'fine' | Extract<FaultKind, RequestFault>
type RequestFault =
  | 'request_lost'
  | 'answer_lost'
  | 'outcome_unknown'
  | 'late_delivery'
  | 'request_repeated'
  | 'conflict'
  | 'slow_request'
  | 'slow_answer'
  | 'call_hangs'

export type WakeFate = 'fine' | 'wake_lost' | 'wake_delayed' | 'wake_repeated'

export interface FaultProfile {
  /** One way, when nothing is wrong. */
  readonly delayUsMin: number
  readonly delayUsMax: number
  /** One way, when the way or the store is slow: up to beyond every deadline. */
  readonly slowMsMax: number
  readonly requests: Readonly<Record<RequestFate, number>>
  readonly wakes: Readonly<Record<WakeFate, number>>
}

/** The longest that a call can hang before the store's own driver gives it up. */
export const HANG_MS_MAX = 6_000

export function faultProfileOf(random: Random): FaultProfile {
  const badness = random.pick([0, 0.01, 0.03, 0.08])
  const share = (): number => badness * random.fraction()
  return {
    delayUsMin: 100,
    delayUsMax: random.pick([500, 3_000, 20_000]),
    slowMsMax: random.pick([200, 1_000, 4_000]),
    requests: {
      fine: 1,
      request_lost: share(),
      answer_lost: share(),
      outcome_unknown: share() / 2,
      late_delivery: share() / 2,
      request_repeated: share(),
      conflict: share() / 2,
      slow_request: share(),
      slow_answer: share(),
      call_hangs: share() / 4,
    },
    wakes: { fine: 1, wake_lost: 5 * share(), wake_delayed: 3 * share(), wake_repeated: share() },
  }
}

/** The same network on a good day: what remains when the faults are over. */
export function calmed(faultProfile: FaultProfile): FaultProfile {
  return {
    ...faultProfile,
    requests: { ...NO_FAULTS },
    wakes: { fine: 1, wake_lost: 0, wake_delayed: 0, wake_repeated: 0 },
  }
}

const NO_FAULTS: Readonly<Record<RequestFate, number>> = {
  fine: 1,
  request_lost: 0,
  answer_lost: 0,
  outcome_unknown: 0,
  late_delivery: 0,
  request_repeated: 0,
  conflict: 0,
  slow_request: 0,
  slow_answer: 0,
  call_hangs: 0,
}
