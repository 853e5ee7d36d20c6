/** What an optimistic store has under way: transactions, the decisions that are tried for them, and what was answered. */
import type { LeaseId } from '../../core/lease.ts'
import type { ReadSet } from '../../core/realm.ts'
import type { Now } from '../../core/time.ts'
import type { Decide } from '../../store-port/store.ts'
import type { ResolvedSettings } from '../resolved-settings.ts'
import type { GroupReply } from './backend.ts'
import type { Belief } from './belief.ts'
import type { ServerTime } from './server-clock.ts'
import type { Speculation } from './speculate.ts'

/** A transaction on its way, however often it must be tried. */
export interface Errand {
  readonly readSets: readonly ReadSet[]
  readonly decide: Decide<unknown>
  readonly resolve: (outcome: unknown) => void
  readonly reject: (error: unknown) => void
  /** When it was first sent. */
  sentSinceMs: number | null
  /** What the server said is there; null before it was asked. */
  beliefs: readonly Belief[] | null
  /** It has missed often, and may get in line by looking at the one before it alone. */
  mayJoin: boolean
  /**
   * Behind whom the last try got in line in vain. Something that is no ticket may have been made after that one, as the
   * lease of a transfer is: then the next try compares all that is there.
   */
  missedBehind: LeaseId | null
  tries: number
  /** How many of the tries came too late: the way was longer than was allowed for. */
  lates: number
  /** How long the latest of them was under way, by the server's clock. */
  latestUs: number
  /** What the server's clock said when it refused the last try as one from its future; it may be standing still. */
  refusedAtUs: number | null
  /** What a try would have written was there when it missed: the driver may have sent it twice. */
  mayBeDone: boolean
  isUnderWay: boolean
  isFinished: boolean
}

/** An errand with the decision that is being tried. */
export interface Trial {
  readonly errand: Errand
  readonly beliefs: readonly Belief[]
  readonly now: Now
  readonly settings: ResolvedSettings
  readonly speculation: Speculation<unknown>
}

/** What was asked last, and the answer. */
export interface Asked {
  readonly trial: Trial
  readonly reply: GroupReply
  readonly sentMs: number
}

/** The first reply, and a clock for tests that know what the server's says. */
export interface Beginning {
  readonly sentMs: number
  readonly reply: GroupReply
  readonly clock: ServerTime | null
}

export interface NowFacts {
  readonly us: number
  readonly toleranceUs: number
}
