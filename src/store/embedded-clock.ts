/**
 * The clock of embedded stores: turns readings of the host's clocks into the `Now` of a decision.
 *
 * Ticks grow strictly from decision to decision, so that the order of tickets is the order of their filing. Wall time
 * never goes back. When the domain is another than the last one, the generation rises, so that a domain that comes
 * back is a new one and nothing judged by the old one is believed.
 */
import { pathError } from '../core/errors.ts'
import type { Now } from '../core/time.ts'
import { systemTickSource, type TickSource } from '../runtime/tick-source.ts'

/** What an embedded store remembers of its clock between decisions. */
export interface ClockState {
  readonly base: string
  readonly generation: number
  /** What ticks call it. The very same string for all of them: it is compared with for every decision. */
  readonly domain: string
  /** The tick at which the present domain was first met. */
  readonly sinceUs: number
  readonly lastUs: number
  readonly lastWallMs: number
}

/** The clock of this host. Throws when it cannot be told which it is: a guess would end every lease. */
export function hostTicks(): TickSource {
  try {
    return systemTickSource()
  } catch (cause) {
    throw pathError('clock', '/proc', cause)
  }
}

/** What the clock says now. `fallbackBase`: which it is, where that cannot be told. */
export function advance(
  state: ClockState | null,
  ticks: TickSource,
  fallbackBase: string,
): ClockState {
  const base = ticks.domain ?? fallbackBase
  const tickUs = ticks.tickUs()
  const lastWallMs = Math.max(state?.lastWallMs ?? 0, ticks.wallMs())
  if (state !== null && isSameClock(state.base, base)) {
    return { ...state, lastUs: Math.max(state.lastUs + 1, tickUs), lastWallMs }
  }
  const generation = (state?.generation ?? 0) + 1
  const domain = domainName(base, generation)
  return { base, generation, domain, sinceUs: tickUs, lastUs: tickUs, lastWallMs }
}

export function domainName(base: string, generation: number): string {
  return `${base}#${generation}`
}

export function nowOf(state: ClockState): Now {
  return {
    tick: { domain: state.domain, us: state.lastUs },
    wallMs: state.lastWallMs,
    domainSinceUs: state.sinceUs,
    toleranceUs: 0,
  }
}

/** Two containers of one boot share its clock, whatever they call their host. */
export function isSameClock(a: string, b: string): boolean {
  return a === b || (clockOf(a) !== null && clockOf(a) === clockOf(b))
}

/** The boot and the clock of a domain; null for one that names no boot. */
function clockOf(base: string): string | null {
  const [, boot = '', clock = ''] = base.split('/')
  return boot === '' ? null : `${boot}/${clock}`
}
