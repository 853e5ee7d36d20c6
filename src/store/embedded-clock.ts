/**
 * The clock of embedded stores: turns readings of the host's clocks into the `Now` of a decision.
 *
 * Ticks grow strictly from decision to decision, so that the order of tickets is the order of their filing. Wall time
 * never goes back. When the domain is another than the last one, the generation rises, so that a domain that comes
 * back is a new one and nothing judged by the old one is believed.
 */
import type { Now } from '../core/time.ts'
import type { TickSource } from '../runtime/tick-source.ts'

/** What an embedded store remembers of its clock between decisions. */
export interface ClockState {
  readonly base: string
  readonly generation: number
  /** The tick at which the present domain was first met. */
  readonly sinceUs: number
  readonly lastUs: number
  readonly lastWallMs: number
}

export interface ClockReading {
  readonly base: string
  readonly tickUs: number
  readonly wallMs: number
}

export function readTicks(ticks: TickSource, fallbackBase: string): ClockReading {
  return { base: ticks.domain ?? fallbackBase, tickUs: ticks.tickUs(), wallMs: ticks.wallMs() }
}

export function advance(state: ClockState | null, reading: ClockReading): ClockState {
  const { base, tickUs, wallMs } = reading
  if (state === null) {
    return { base, generation: 1, sinceUs: tickUs, lastUs: tickUs, lastWallMs: wallMs }
  }
  const lastWallMs = Math.max(state.lastWallMs, wallMs)
  if (!isSameClock(state.base, base)) {
    const generation = state.generation + 1
    return { base, generation, sinceUs: tickUs, lastUs: tickUs, lastWallMs }
  }
  const { generation, sinceUs } = state
  return {
    base: state.base,
    generation,
    sinceUs,
    lastUs: Math.max(state.lastUs + 1, tickUs),
    lastWallMs,
  }
}

export function nowOf(state: ClockState): Now {
  return {
    tick: { domain: `${state.base}#${state.generation}`, us: state.lastUs },
    wallMs: state.lastWallMs,
    domainSinceUs: state.sinceUs,
    toleranceUs: 0,
  }
}

/** Two containers of one boot share its clock, whatever they call their host. */
function isSameClock(a: string, b: string): boolean {
  return a === b || (clockOf(a) !== null && clockOf(a) === clockOf(b))
}

/** The boot and the clock of a domain; null for one that names no boot. */
function clockOf(base: string): string | null {
  const [, boot = '', clock = ''] = base.split('/')
  return boot === '' ? null : `${boot}/${clock}`
}
