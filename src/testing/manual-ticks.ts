/**
 * A clock that stands still until the test moves it, for stores that take a `TickSource`. Each of the things that can
 * happen to a real clock is a method: time passes, the wall is set, the host reboots or the file moves to another.
 */
import type { TickSource } from '../runtime/tick-source.ts'

/** What a harness must be able to do with its store's clock. */
export interface TestClock {
  /** Lets time pass, on the tick and on the wall. */
  pass(spanMs: number): void
  /** Sets the wall forward, or back; the tick does not move. */
  stepWall(spanMs: number): void
  /** Goes on with another clock, `host/boot/clock`, whose ticks start somewhere else. */
  enterDomain(domain: string): void
}

const TICK_START_US = 1_000_000_000
const WALL_START_MS = 1_700_000_000_000

export class ManualTicks implements TickSource, TestClock {
  readonly host = 'manual-host'
  #domain: string | null
  #us = TICK_START_US
  #wallMs = WALL_START_MS

  /** Null is a platform that cannot tell one boot from the next. */
  constructor(domain: string | null = 'manual-host/boot-1/0') {
    this.#domain = domain
  }

  get domain(): string | null {
    return this.#domain
  }

  tickUs(): number {
    return this.#us
  }

  wallMs(): number {
    return this.#wallMs
  }

  pass(spanMs: number): void {
    this.#us += Math.round(spanMs * 1000)
    this.#wallMs += Math.floor(spanMs)
  }

  stepWall(spanMs: number): void {
    this.#wallMs += spanMs
  }

  /** The ticks of a new clock are lower here, as after a reboot, so that a store that compares them fails. */
  enterDomain(domain: string): void {
    if (domain === this.#domain) return
    this.#domain = domain
    this.#us = Math.floor(this.#us / 2)
  }
}
