/**
 * Time as the core sees it: a tick that decides, and a wall time that is only for people.
 *
 * Ticks of different domains are never compared. A domain reads `host/boot/clock#generation`; the generation is
 * raised by the store each time it meets another domain, so that a domain that comes back is a new one.
 */

/** A point on a store's deciding clock, in microseconds. */
export interface Tick {
  readonly domain: string
  readonly us: number
}

/** What the store's clock says at the moment of a decision. */
export interface Now {
  readonly tick: Tick
  /** Wall time of the store; never goes back within a realm. */
  readonly wallMs: number
  /** The tick at which the store first met the present domain. */
  readonly domainSinceUs: number
  /**
   * How much later than `tick` the decision may still be committed. 0 for a store that decides while it commits; one
   * that decides before it asks must not take that time from the holder that is granted something.
   */
  readonly toleranceUs: number
}

export const US_PER_MS = 1_000

export function tickAfter(tick: Tick, spanMs: number): Tick {
  return { domain: tick.domain, us: tick.us + spanMs * US_PER_MS }
}

/** The last moment at which the decision can be committed. A holder that is told what is left counts from here. */
export function latestTick({ tick, toleranceUs }: Now): Tick {
  return { domain: tick.domain, us: tick.us + toleranceUs }
}

/** The end of a span that is given now. It counts from the last moment at which the decision can be committed. */
export function deadlineAfter(now: Now, spanMs: number): Tick {
  return tickAfter(latestTick(now), spanMs)
}

/** What the wall clock will say at a tick of the present domain. */
export function wallAt(us: number, now: Now): number {
  return now.wallMs + Math.round((us - now.tick.us) / US_PER_MS)
}

/** The deadline is inclusive: at `now == deadline` it has passed. A tick of another domain has always passed. */
export function hasPassed(deadline: Tick, now: Tick): boolean {
  return deadline.domain !== now.domain || deadline.us <= now.us
}

/** Milliseconds left until `deadline`, rounded up, and 0 once it has passed. */
export function remainingMs(deadline: Tick, now: Tick): number {
  return hasPassed(deadline, now) ? 0 : Math.ceil((deadline.us - now.us) / US_PER_MS)
}

/**
 * True when every process that could have used `earlier` is dead: it names another boot of the very host that
 * `present` names. Two clocks of one boot, or two hosts, prove nothing.
 */
export function isEarlierBootOfSameHost(earlier: string, present: string): boolean {
  const [earlierHost, earlierBoot] = earlier.split('/')
  const [presentHost, presentBoot] = present.split('/')
  if (earlierHost === undefined || earlierBoot === undefined) return false
  if (earlierHost === '' || earlierBoot === '') return false
  return earlierHost === presentHost && earlierBoot !== presentBoot
}
