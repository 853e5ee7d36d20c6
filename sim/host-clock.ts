/**
 * The clocks of one simulated host, all of them wrong in the ways that real ones are: they run up to one percent fast
 * or slow, the wall clock is set forward and back, and the monotonic clock stands still while the host sleeps.
 */
import type { World } from './world.ts'

/** What a holder allows for; the simulated clocks stay a hair inside it. */
export const RATE_MIN = 0.9901
export const RATE_MAX = 1.0099

/** `os.uptime` is this coarse. */
const BOOT_STEP_MS = 10

export interface HostClockOptions {
  readonly rate: number
  /** Some platforms have no clock that counts sleep. */
  readonly hasBootClock: boolean
  readonly wallMs: number
  readonly uptimeMs: number
}

export class HostClock {
  readonly hasBootClock: boolean
  readonly #world: World
  #rate: number
  #asleep = false
  #readAtUs: number
  #monotonicMs: number
  #bootMs: number
  #wallMs: number

  constructor(world: World, options: HostClockOptions) {
    this.#world = world
    this.#rate = options.rate
    this.hasBootClock = options.hasBootClock
    this.#readAtUs = world.nowUs
    this.#monotonicMs = options.uptimeMs
    this.#bootMs = options.uptimeMs
    this.#wallMs = options.wallMs
  }

  get rate(): number {
    return this.#rate
  }

  set rate(rate: number) {
    this.#catchUp()
    this.#rate = rate
  }

  get monotonicMs(): number {
    this.#catchUp()
    return this.#monotonicMs
  }

  get bootMs(): number | null {
    this.#catchUp()
    return this.hasBootClock ? Math.floor(this.#bootMs / BOOT_STEP_MS) * BOOT_STEP_MS : null
  }

  get wallMs(): number {
    this.#catchUp()
    return Math.floor(this.#wallMs)
  }

  stepWall(byMs: number): void {
    this.#catchUp()
    this.#wallMs += byMs
  }

  sleep(): void {
    this.#catchUp()
    this.#asleep = true
  }

  wake(): void {
    this.#catchUp()
    this.#asleep = false
  }

  /** How long a span of this clock lasts in true time. */
  trueUs(spanMs: number): number {
    return (spanMs * 1000) / this.#rate
  }

  #catchUp(): void {
    const passedMs = ((this.#world.nowUs - this.#readAtUs) / 1000) * this.#rate
    this.#readAtUs = this.#world.nowUs
    this.#bootMs += passedMs
    this.#wallMs += passedMs
    if (!this.#asleep) this.#monotonicMs += passedMs
  }
}
